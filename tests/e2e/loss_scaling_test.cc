// f16 training: what a gradient that overflows does to the scale, and what it does not do to the
// rest.
#include "frontend/driver/trainer.h"
#include "frontend/dsl/dsl.h"
#include "ir/base/error.h"
#include "ir/training.h"

#include <gtest/gtest.h>

#include <cstring>

namespace stator {
namespace {

template <typename T>
T StateOf(Trainer& trainer, std::string_view name) {
  const std::vector<char> bytes = trainer.executor().ReadState(std::string(name));
  T v;
  EXPECT_EQ(bytes.size(), sizeof v) << name;
  std::memcpy(&v, bytes.data(), sizeof v);
  return v;
}

// loss = mean of (x w1) w2, all [4,4], w2 of 64s. The gradient of x w1 is scale / 16 * 64 * 4 in
// each element, which f16 holds for scales below 4096. Rates and gradients are powers of two, so
// that scaling is exact.
class LossScaling : public testing::Test {
 protected:
  std::unique_ptr<Trainer> Make(DType dtype, double scale = 65536, int64_t interval = 3,
                                int micro_batches = 1) {
    dsl::Model m("chain");
    const dsl::Tensor x = m.Input("x", {4, 4}, dsl::kF32);
    const dsl::Tensor w1 = m.scope().Parameter("w1", {4, 4}, "constant(0.5)");
    const dsl::Tensor w2 = m.scope().Parameter("w2", {4, 4}, "constant(64)");
    m.SetLoss({.mean = dsl::Mean(dsl::MatMul(dsl::MatMul(x, w1), w2)), .weight = {}});
    TrainerOptions options;
    options.device = "cpu";
    options.compile.compute_dtype = dtype;
    options.compile.loss_scale = scale;
    options.compile.loss_scale_interval = interval;
    options.compile.micro_batches = micro_batches;
    return std::make_unique<Trainer>(m, dsl::Sgd{.learning_rate = 0.0009765625}, options);
  }
  Feed Batch(float value) {
    x_.assign(16, value);
    return {{"x", AsBytes(x_)}};
  }

 private:
  std::vector<float> x_;
};

TEST_F(LossScaling, halves_and_skips_until_gradients_fit) {
  const auto scaled = Make(DType::kF16), plain = Make(DType::kF32);
  const std::vector<char> before = scaled->executor().ReadState("w1");
  double scale = 65536;
  for (int i = 0; i < 5; ++i, scale /= 2) {  // 65536, 32768, ..., 4096
    const Metrics m = scaled->Step(Batch(1));
    EXPECT_FALSE(m.finite);
    EXPECT_EQ(m.loss_scale, scale);
    EXPECT_EQ(m.loss, 512);
    EXPECT_EQ(scaled->executor().ReadState("w1"), before);
    EXPECT_EQ(StateOf<int64_t>(*scaled, training::kStep), 0);
    EXPECT_EQ(StateOf<int64_t>(*scaled, training::kSkippedUpdates), i + 1);
  }
  const Metrics a = scaled->Step(Batch(1)), b = plain->Step(Batch(1));
  EXPECT_TRUE(a.finite);
  EXPECT_EQ(a.loss_scale, 2048);
  EXPECT_EQ(a.grad_norm, b.grad_norm);
  EXPECT_EQ(b.loss_scale, 0);
  EXPECT_EQ(StateOf<int64_t>(*scaled, training::kStep), 1);
  EXPECT_NE(scaled->executor().ReadState("w1"), before);
  EXPECT_EQ(scaled->executor().ReadState("w1"), plain->executor().ReadState("w1"));
}

TEST_F(LossScaling, doubles_after_an_interval_of_applied_updates) {
  const auto trainer = Make(DType::kF16, 256);
  std::vector<float> scales;
  for (int i = 0; i < 8; ++i)
    scales.push_back(trainer->Step(Batch(i == 4 ? 1e6f : 0.0f)).loss_scale);
  // The fifth overflows, which starts the count anew.
  EXPECT_EQ(scales, (std::vector<float>{256, 256, 256, 512, 512, 256, 256, 256}));
  EXPECT_EQ(StateOf<float>(*trainer, training::kLossScale), 512);
  EXPECT_EQ(StateOf<int64_t>(*trainer, training::kStep), 7);
  EXPECT_EQ(StateOf<int64_t>(*trainer, training::kSkippedUpdates), 1);
}

TEST_F(LossScaling, stays_within_its_limits) {
  const auto falling = Make(DType::kF16, 2);
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(falling->Step(Batch(1e6f)).finite);
  EXPECT_EQ(StateOf<float>(*falling, training::kLossScale), 1);
  const auto rising = Make(DType::kF16, 1024, 1);
  for (int i = 0; i < 6; ++i) rising->Step(Batch(0));  // 1024, 2048, 4096 (overflows), 2048, ...
  EXPECT_EQ(StateOf<int64_t>(*rising, training::kSkippedUpdates), 2);
  const auto fixed = Make(DType::kF16, 128, 0);
  EXPECT_FALSE(fixed->Step(Batch(1e6f)).finite);
  EXPECT_TRUE(fixed->Step(Batch(1)).finite);
  EXPECT_EQ(StateOf<float>(*fixed, training::kLossScale), 128);
  EXPECT_THROW(Make(DType::kF16, 3), Error);
  EXPECT_THROW(Make(DType::kF16, 0.5), Error);
}

// The mean over 4096 elements leaves room for the largest scale in f16.
TEST_F(LossScaling, does_not_grow_past_the_largest) {
  dsl::Model m("wide");
  const dsl::Tensor x = m.Input("x", {64, 4}, dsl::kF32);
  const dsl::Tensor w = m.scope().Parameter("w", {4, 64}, "constant(0.5)");
  m.SetLoss({.mean = dsl::Mean(dsl::MatMul(x, w)), .weight = {}});
  TrainerOptions options;
  options.device = "cpu";
  options.compile.compute_dtype = DType::kF16;
  options.compile.loss_scale = 8388608;  // half of it
  options.compile.loss_scale_interval = 1;
  Trainer trainer(m, dsl::Sgd{.learning_rate = 0.0009765625}, options);
  const std::vector<float> ones(256, 1);
  std::vector<float> scales;
  for (int i = 0; i < 4; ++i) {
    const Metrics metrics = trainer.Step({{"x", AsBytes(ones)}});
    EXPECT_TRUE(metrics.finite);
    scales.push_back(metrics.loss_scale);
  }
  EXPECT_EQ(scales, (std::vector<float>{8388608, 16777216, 16777216, 16777216}));
}

TEST_F(LossScaling, holds_over_micro_batches) {
  const auto scaled = Make(DType::kF16, 4096, 3, 2), plain = Make(DType::kF32, 65536, 3, 2);
  const std::vector<Feed> feeds(2, Batch(1));
  EXPECT_FALSE(scaled->Step(feeds).finite);
  const Metrics a = scaled->Step(feeds), b = plain->Step(feeds);
  EXPECT_TRUE(a.finite);
  EXPECT_EQ(a.grad_norm, b.grad_norm);
  EXPECT_EQ(scaled->executor().ReadState("w1"), plain->executor().ReadState("w1"));
}

}  // namespace
}  // namespace stator
