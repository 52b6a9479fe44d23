#include "frontend/driver/trainer.h"

#include "frontend/driver/sample.h"
#include "tests/frontend/driver/driver_support.h"
#include "tests/frontend/driver/fake_executor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace stator {
namespace {

std::vector<char> F32(float v) {
  std::vector<char> bytes(4);
  std::memcpy(bytes.data(), &v, 4);
  return bytes;
}

std::unique_ptr<FakeExecutor> Accumulating() {
  auto executor = std::make_unique<FakeExecutor>(std::vector<StateEntry>{});
  executor->AddProgram("accumulate", [](auto&, const auto&) { return OutputMap(); });
  executor->AddProgram("update", [n = 0](auto&, const auto&) mutable {
    return OutputMap{{"loss", F32(static_cast<float>(++n))}, {"finite", {n != 2}}};
  });
  return executor;
}

TEST(Trainer, metrics_come_in_the_order_of_the_updates) {
  auto owned = Accumulating();
  FakeExecutor& executor = *owned;
  Trainer trainer(std::move(owned));
  // More runs than the executor has tickets for.
  trainer.Enqueue(std::vector<Feed>(7));
  trainer.Enqueue(std::vector<Feed>(7));
  trainer.Enqueue(std::vector<Feed>(1));
  EXPECT_EQ(trainer.in_flight(), 3);
  EXPECT_EQ(executor.launched.size(), 18u);
  EXPECT_EQ(executor.launched[7], "update");
  EXPECT_EQ(trainer.Take().loss, 1);
  const Metrics second = trainer.Take();
  EXPECT_EQ(second.loss, 2);
  EXPECT_FALSE(second.finite);
  EXPECT_EQ(trainer.Take().loss, 3);
  EXPECT_EQ(trainer.Step(std::vector<Feed>(2)).loss, 4);
}

TEST(Trainer, a_plan_of_one_micro_batch_takes_one) {
  auto executor = std::make_unique<FakeExecutor>(std::vector<StateEntry>{});
  executor->AddProgram("train", [](auto&, const auto&) { return OutputMap{{"loss", F32(5)}}; });
  Trainer trainer(std::move(executor));
  EXPECT_EQ(trainer.Step(Feed{}).loss, 5);
  EXPECT_HAS(ErrorOf([&] { trainer.Step(std::vector<Feed>(2)); }),
             "one micro-batch an update, got 2");
}

TEST(DrawToken, temperature_zero_takes_the_first_of_the_likeliest) {
  EXPECT_EQ(DrawToken(std::vector<float>{1, 3, 3, 2}, {.temperature = 0}, 0), 1);
}

TEST(DrawToken, follows_the_probabilities) {
  const std::vector<float> logits = {0, std::log(3.0f), -INFINITY};
  int ones = 0;
  for (int i = 0; i < 4000; ++i) {
    const int32_t id = DrawToken(logits, {.temperature = 1, .seed = 9}, i);
    ASSERT_LT(id, 2);
    ones += id;
  }
  EXPECT_NEAR(ones / 4000.0, 0.75, 0.03);
}

TEST(DrawToken, top_k_draws_among_the_k_likeliest) {
  const std::vector<float> logits = {1, 1.1f, 1.2f, 1.3f};
  for (int i = 0; i < 200; ++i) {
    EXPECT_GE(DrawToken(logits, {.temperature = 1, .top_k = 2}, i), 2);
  }
}

TEST(DrawToken, logits_that_are_not_finite_are_an_error) {
  EXPECT_HAS(ErrorOf([] {
               DrawToken(std::vector<float>{NAN, 1}, {.temperature = 1}, 3);
             }),
             "logits at token 3 are not finite");
}

TEST(Printable, keeps_utf8_and_marks_the_rest) {
  EXPECT_EQ(Printable("a\tb\n\xc3\xa9\xff\x01\xc3"), "a\tb\n\xc3\xa9???");
}

}  // namespace
}  // namespace stator
