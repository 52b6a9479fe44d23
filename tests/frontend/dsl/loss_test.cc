#include "frontend/dsl/loss.h"

#include "frontend/dsl/layers.h"
#include "frontend/dsl/ops.h"
#include "tests/frontend/dsl/dsl_support.h"

#include <cmath>

namespace stator::dsl {
namespace {

struct Case {
  Model m{"t"};
  Tensor logits = m.Input("logits", {1, 3, 2}, kF32);
  Tensor targets = m.Input("targets", {1, 3}, kI32);
  Params Feed(const std::vector<double>& ids) const {
    return {{"logits", Host({kF32, {1, 3, 2}}, {0, 1, 2, 0, 0, 3})},
            {"targets", Host({kI32, {1, 3}}, ids)}};
  }
};

double Nll(double gap) { return std::log1p(std::exp(-gap)); }  // the target leads by `gap`

TEST(CrossEntropy, is_the_mean_over_counted_targets) {
  Case c;
  const Loss loss = CrossEntropy(c.logits, c.targets);
  EXPECT_EQ(loss.mean.value().type(), (Type{kF32, {}}));
  const Params all = c.Feed({1, 0, 1}), some = c.Feed({1, -100, 0});
  EXPECT_NEAR(Eval(loss.mean, all)[0], (Nll(1) + Nll(2) + Nll(3)) / 3, 1e-6);
  EXPECT_EQ(Eval(loss.weight, all)[0], 3);
  EXPECT_NEAR(Eval(loss.mean, some)[0], (Nll(1) + Nll(-3)) / 2, 1e-6);
  EXPECT_EQ(Eval(loss.weight, some)[0], 2);
}

TEST(CrossEntropy, no_counted_target_gives_zero) {
  Case c;
  const Loss loss = CrossEntropy(c.logits, c.targets);
  const Params none = c.Feed({-100, -100, -100});
  EXPECT_EQ(Eval(loss.mean, none)[0], 0);
  EXPECT_EQ(Eval(loss.weight, none)[0], 0);
}

TEST(CrossEntropy, options) {
  Case c;
  const Params p = c.Feed({1, 0, 1});
  const auto nll = [](double gap, double e) { return Nll(gap) + e * gap / 2; };
  EXPECT_NEAR(Eval(CrossEntropy(c.logits, c.targets, {.label_smoothing = 0.1}).mean, p)[0],
              (nll(1, 0.1) + nll(2, 0.1) + nll(3, 0.1)) / 3, 1e-6);
  const auto z = [](double low, double high) {
    return std::pow(std::log(std::exp(low) + std::exp(high)), 2);
  };
  EXPECT_NEAR(Eval(CrossEntropy(c.logits, c.targets, {.z_loss = 0.5}).mean, p)[0],
              (Nll(1) + Nll(2) + Nll(3) + 0.5 * (z(0, 1) + z(0, 2) + z(0, 3))) / 3, 1e-5);
  const Loss ignoring = CrossEntropy(c.logits, c.targets, {.ignore_index = 0});
  EXPECT_EQ(Eval(ignoring.weight, p)[0], 2);
}

TEST(CrossEntropy, shapes_that_do_not_fit_are_named) {
  Case c;
  const Tensor short_targets = c.m.Input("short", {1, 2}, kI32);
  const std::string e = ErrorOf([&] { CrossEntropy(c.logits, short_targets); });
  EXPECT_HAS(e, "[1,3,2]");
  EXPECT_HAS(e, "[1,2]");
  EXPECT_HAS(e, "loss_test.cc");
}

TEST(LinearCrossEntropy, is_cross_entropy_of_the_product) {
  Case c;
  const Tensor x = c.m.Input("x", {1, 3, 4}, kF32), w = c.m.Input("w", {2, 4}, kF32);
  Params p = c.Feed({1, -100, 0});
  p["x"] = Host({kF32, {1, 3, 4}}, {1, 2, 3, 4, 5, 6, 7, 8, -1, 0, 1, 2});
  p["w"] = Host({kF32, {2, 4}}, {0.5, -1, 0.25, 0, 1, 0, -0.5, 0.125});
  const CrossEntropyOptions options = {.label_smoothing = 0.1, .z_loss = 0.01, .chunk = 2};
  const Loss loss = LinearCrossEntropy(x, w, c.targets, options),
             full = CrossEntropy(LinearWith(w, x), c.targets, options);
  EXPECT_NEAR(Eval(loss.mean, p)[0], Eval(full.mean, p)[0], 1e-6);
  EXPECT_EQ(Eval(loss.weight, p)[0], 2);
}

TEST(LinearCrossEntropy, what_does_not_fit_is_named) {
  Case c;
  const Tensor x = c.m.Input("x", {1, 3, 4}, kF32), w = c.m.Input("w", {2, 5}, kF32),
               short_x = c.m.Input("short", {1, 2, 5}, kF32);
  const std::string weight = ErrorOf([&] { LinearCrossEntropy(x, w, c.targets); });
  EXPECT_HAS(weight, "weight [2,5] does not fit input [1,3,4]");
  EXPECT_HAS(weight, "loss_test.cc");
  EXPECT_HAS(ErrorOf([&] { LinearCrossEntropy(short_x, w, c.targets); }),
             "input [1,2,5] does not fit targets [1,3]");
  EXPECT_HAS(ErrorOf([&] {
               LinearCrossEntropy(x, x.Reshape({3, 4}), c.targets, {.chunk = -1});
             }),
             "chunk -1 is negative");
}

TEST(Loss, several_at_once) {
  Case c;
  const Tensor x = c.m.Input("x", {4}, kF32), y = c.m.Input("y", {4}, kF32);
  Params p = c.Feed({1, 0, 1});
  p["x"] = Host({kF32, {4}}, {1, 2, 3, 4});
  p["y"] = Host({kF32, {4}}, {1, 2, 3, 8});
  const Loss a = CrossEntropy(c.logits, c.targets), b = MeanSquaredError(x, y);
  const Loss total = a + 0.1 * b + 0.5 * Penalty(Sum(x));
  EXPECT_NEAR(Eval(total.mean, p)[0], (Nll(1) + Nll(2) + Nll(3)) / 3 + 0.1 * 4 + 0.5 * 10, 1e-5);
  EXPECT_EQ(Eval(total.weight, p)[0], 3);
  EXPECT_EQ(Eval((Penalty(Sum(x)) + b).weight, p)[0], 4);
  EXPECT_FALSE(Penalty(Sum(x)).weight.defined());
}

TEST(Loss, masked_mean) {
  Model m("t");
  const Tensor x = m.Input("x", {4}, kF32);
  const Params p = {{"x", Host({kF32, {4}}, {1, 2, 3, 4})}};
  EXPECT_EQ(Eval(MaskedMean(x, x > 2).mean, p)[0], 3.5);
  EXPECT_EQ(Eval(MaskedMean(x, x > 2).weight, p)[0], 2);
  EXPECT_EQ(Eval(MaskedMean(x, x > 9).mean, p)[0], 0);
}

}  // namespace
}  // namespace stator::dsl
