// What changes between replays of a captured step: settings of the optimizer, the loss scale,
// random masks.
#include "frontend/driver/trainer.h"
#include "frontend/dsl/dsl.h"
#include "tests/frontend/driver/driver_support.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace stator::dsl {
namespace {

class Settings : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::string why;
    if (GetParam() == "cuda" && !HasCudaDevice(&why)) GTEST_SKIP() << why;
  }

  TrainerOptions On(DType dtype = DType::kF32) const {
    TrainerOptions options;
    options.device = GetParam();
    options.compile.compute_dtype = dtype;
    return options;
  }
};

// One parameter p [1,1] of which the loss is x p: its gradient is x.
struct Line : Model {
  explicit Line(const char* init) : Model("line") {
    const Tensor p = scope().Parameter("p", {1, 1}, init);
    SetLoss({Sum(p * Input("x", {1, 1}, kF32)), Tensor()});
  }
};

float ParameterOf(Trainer& trainer) {
  float p = 0;
  std::memcpy(&p, trainer.executor().ReadState("p").data(), sizeof p);
  return p;
}

void Step(Trainer& trainer, float x) {
  trainer.Step({{"x", Bytes(reinterpret_cast<const char*>(&x), sizeof x)}});
}

TEST_P(Settings, learning_rate) {
  Line m("zeros");
  Trainer trainer(m, Sgd{.learning_rate = 0.1, .adjustable = true}, On());
  for (const double factor : {1.0, 0.1, 0.01}) {
    trainer.Set("learning_rate_factor", factor);
    Step(trainer, 1);
  }
  EXPECT_NEAR(ParameterOf(trainer), -0.111, 1e-7);
}

TEST_P(Settings, learning_rate_of_updates_in_flight_stays) {
  Line m("zeros");
  Trainer trainer(m, Sgd{.learning_rate = 1, .adjustable = true}, On());
  const std::vector<float> one = {1};
  for (int i = 0; i < 3; ++i) trainer.Enqueue({{{"x", AsBytes(one)}}});
  trainer.Set("learning_rate_factor", 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(trainer.Take().learning_rate, 1);
  Step(trainer, 1);
  EXPECT_EQ(ParameterOf(trainer), -3);
}

TEST_P(Settings, weight_decay) {
  for (const bool adam : {false, true}) {
    Line m("ones");
    const Optimizer sgd = Sgd{.learning_rate = 1, .weight_decay = 0.125, .adjustable = true},
                    adamw = AdamW{.learning_rate = 1, .weight_decay = 0.125, .adjustable = true};
    Trainer trainer(m, adam ? adamw : sgd, On());
    float want = 1;
    for (const double factor : {1.0, 0.0, 2.0}) {
      trainer.Set("weight_decay_factor", factor);
      Step(trainer, 0);
      want *= 1 - 0.125f * static_cast<float>(factor);
      EXPECT_EQ(ParameterOf(trainer), want) << "factor " << factor;
    }
  }
}

TEST_P(Settings, clip_norm) {
  Line m("zeros");
  Trainer trainer(m, Sgd{.learning_rate = 1, .clip_norm = 0.5, .adjustable = true}, On());
  float want = 0;
  Step(trainer, 2);
  EXPECT_NEAR(ParameterOf(trainer), want -= 0.5f, 1e-5);
  trainer.Set("clip_norm", 0.25);
  Step(trainer, 2);
  EXPECT_NEAR(ParameterOf(trainer), want -= 0.25f, 1e-5);
  trainer.Set("clip_norm", 100);
  Step(trainer, 2);
  EXPECT_NEAR(ParameterOf(trainer), want - 2, 1e-5);
}

TEST_P(Settings, loss_scale) {
  Line m("zeros");
  Trainer trainer(m, Sgd{.learning_rate = 1}, On(DType::kF16));
  const std::vector<float> one = {1};
  trainer.Step({{"x", AsBytes(one)}});
  trainer.Set("loss_scale", 8);
  EXPECT_EQ(trainer.Step({{"x", AsBytes(one)}}).loss_scale, 8);
  EXPECT_EQ(ParameterOf(trainer), -2);
  EXPECT_HAS(ErrorOf([&] { trainer.Set("loss_scale", 3); }), "must be a power of two from 1.0 to ");
}

TEST_P(Settings, that_there_are_not_and_values_that_cannot_be) {
  Line plain("zeros"), m("zeros");
  Trainer fixed(plain, Sgd{.learning_rate = 1}, On());
  EXPECT_HAS(ErrorOf([&] { fixed.Set("learning_rate_factor", 1); }),
             "there are none: the optimizer is not adjustable");
  Trainer trainer(m, Sgd{.learning_rate = 1, .clip_norm = 1, .adjustable = true}, On());
  EXPECT_HAS(
      ErrorOf([&] { trainer.Set("lr", 1); }),
      "no setting is named 'lr'; there are clip_norm, learning_rate_factor, weight_decay_factor");
  EXPECT_HAS(ErrorOf([&] { trainer.Set("learning_rate_factor", -1); }),
             "must be finite and not negative, got -1");
  EXPECT_HAS(ErrorOf([&] { trainer.Set("weight_decay_factor", 1e300); }), "must be finite");
  EXPECT_HAS(ErrorOf([&] { trainer.Set("clip_norm", 0); }), "must be finite and above 0, got 0");
}

// Masks of six updates, by the losses that they leave: the mean of 256 ones, a quarter of them
// dropped.
std::vector<float> Losses(const TrainerOptions& options) {
  Model m("mask");
  const Tensor p = m.scope().Parameter("p", {1, 1}, "ones");
  m.SetLoss(
      {Mean(Dropout(m.scope() / "drop", m.Input("x", {1, 256}, kF32), 0.25)) * Sum(p), Tensor()});
  Trainer trainer(m, Sgd{.learning_rate = 0}, options);
  const std::vector<float> x(256, 1);
  std::vector<float> losses;
  for (int i = 0; i < 6; ++i) losses.push_back(trainer.Step({{"x", AsBytes(x)}}).loss);
  return losses;
}

TEST_P(Settings, dropout_masks_differ_between_replays_and_repeat_with_the_seed) {
  TrainerOptions options = On();
  options.seed = 7;
  const std::vector<float> first = Losses(options), again = Losses(options);
  options.seed = 8;
  EXPECT_GT(std::set<float>(first.begin(), first.end()).size(), 2u);
  EXPECT_EQ(first, again);
  EXPECT_NE(first, Losses(options));
}

INSTANTIATE_TEST_SUITE_P(Devices, Settings, testing::Values("cpu", "cuda"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace stator::dsl
