// The conventions of docs/ir.md at the points where calculus has no say.
#include "tests/ir/compare.h"
#include "tests/ir/random_inputs.h"
#include "tests/support/op_cases.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stator {
namespace {

constexpr double kInf = INFINITY;

Tensor F32(const std::vector<double>& v) {
  return MakeTensor(DType::kF32, {static_cast<int64_t>(v.size())}, v);
}
Tensor Row(const std::vector<double>& v) {
  return MakeTensor(DType::kF32, {1, static_cast<int64_t>(v.size())}, v);
}

// --- ties, kinks and bounds ---

TEST(Convention, maximum_and_minimum_split_ties_equally) {
  for (const char* op : {"maximum", "minimum"}) {
    const auto g = RunGrad(op, "(f32[3], f32[3])", {F32({1, 2, 2}), F32({2, 2, 1})});
    const double first = op == std::string("minimum") ? 1 : 0;
    EXPECT_TRUE(Same(g.at("a"), F32({first, 0.5, 1 - first}))) << op;
    EXPECT_TRUE(Same(g.at("b"), F32({1 - first, 0.5, first}))) << op;
  }
}

TEST(Convention, max_and_min_reductions_split_ties_equally) {
  const auto max = RunGrad("max", "(f32[1,4]) {axes=[1]}", {Row({3, 1, 3, 2})});
  EXPECT_TRUE(Same(max.at("x"), Row({0.5, 0, 0.5, 0})));
  const auto min = RunGrad("min", "(f32[1,5]) {axes=[1]}", {Row({1, 1, 3, 1, 1})});
  EXPECT_TRUE(Same(min.at("x"), Row({0.25, 0.25, 0, 0.25, 0.25})));
}

TEST(Convention, clamp_passes_at_its_bounds) {
  const auto g = RunGrad("clamp", "(f32[5]) {min=-1, max=1}", {F32({-2, -1, 0, 1, 2})});
  EXPECT_TRUE(Same(g.at("x"), F32({0, 1, 1, 1, 0})));
}

TEST(Convention, abs_and_relu_are_flat_at_zero) {
  EXPECT_TRUE(Same(RunGrad("abs", "(f32[3])", {F32({-2, 0, 2})}).at("x"), F32({-1, 0, 1})));
  EXPECT_TRUE(Same(RunGrad("relu", "(f32[3])", {F32({-2, 0, 2})}).at("x"), F32({0, 0, 1})));
}

TEST(Convention, sqrt_at_zero_has_gradient_zero) {
  EXPECT_TRUE(Same(RunGrad("sqrt", "(f32[2])", {F32({0, 4})}).at("x"), F32({0, 0.25})));
}

TEST(Convention, pow_at_zero) {
  const auto g = RunGrad("pow", "(f32[4], f32[4])", {F32({0, 0, 0, 3}), F32({0, 1, 2, 0})});
  EXPECT_TRUE(Same(g.at("a"), F32({0, 1, 0, 0})));
  EXPECT_TRUE(Near(g.at("b"), F32({0, 0, 0, std::log(3)}), 1e-6));
}

// --- NaN ---

TEST(Convention, nan_passes_through_max_min_relu_and_clamp) {
  EXPECT_TRUE(Same(RunOp("relu", "(f32[2])", {F32({NAN, 1})})[0], F32({NAN, 1})));
  EXPECT_TRUE(Same(RunOp("clamp", "(f32[1]) {min=0}", {F32({NAN})})[0], F32({NAN})));
  for (const char* op : {"maximum", "minimum"}) {
    EXPECT_TRUE(
        Same(RunOp(op, "(f32[2], f32[2])", {F32({NAN, 1}), F32({1, NAN})})[0], F32({NAN, NAN})));
  }
  for (const char* op : {"max", "min"}) {
    EXPECT_TRUE(Same(RunOp(op, "(f32[1,3]) {axes=[1]}", {Row({1, NAN, 2})})[0], Row({NAN})));
  }
}

TEST(Convention, the_cotangent_reaches_nan_whole) {
  EXPECT_TRUE(Same(RunGrad("relu", "(f32[2])", {F32({NAN, -1})}).at("x"), F32({1, 0})));
  EXPECT_TRUE(Same(RunGrad("clamp", "(f32[1]) {min=0, max=1}", {F32({NAN})}).at("x"), F32({1})));
  EXPECT_TRUE(
      Same(RunGrad("maximum", "(f32[1], f32[1])", {F32({NAN}), F32({1})}).at("a"), F32({1})));
  EXPECT_TRUE(
      Same(RunGrad("max", "(f32[1,3]) {axes=[1]}", {Row({1, NAN, 2})}).at("x"), Row({0, 1, 0})));
}

TEST(Convention, nan_sorts_last_and_wins_argmax) {
  const Tensor x = F32({NAN, 2, 1, NAN, 3});
  const auto up = RunOp("sort", "(f32[5])", {x}),
             down = RunOp("sort", "(f32[5]) {descending=true}", {x});
  EXPECT_TRUE(Same(up[0], F32({1, 2, 3, NAN, NAN})));
  EXPECT_TRUE(Same(up[1], MakeTensor(DType::kI32, {5}, {2, 1, 4, 0, 3})));
  EXPECT_TRUE(Same(down[0], F32({3, 2, 1, NAN, NAN})));
  EXPECT_EQ(RunOp("argmax", "(f32[5])", {F32({1, 5, NAN, 9, NAN})})[0].i[0], 2);
}

// --- products, sums, variances ---

TEST(Convention, prod_gradient_is_right_with_zeros) {
  const auto grad = [](const std::vector<double>& v) {
    return RunGrad("prod", "(f32[1,3]) {axes=[1]}", {Row(v)}).at("x");
  };
  EXPECT_TRUE(Near(grad({2, 3, 4}), Row({12, 8, 6}), 1e-6));
  EXPECT_TRUE(Same(grad({2, 0, 4}), Row({0, 8, 0})));
  EXPECT_TRUE(Same(grad({0, 0, 4}), Row({0, 0, 0})));
}

TEST(Convention, variance_of_large_mean_rows_is_two_pass) {
  std::vector<double> values;
  for (int k = 0; k < 1000; ++k) values.push_back(1e4 + (k % 2 ? 1 : -1));
  const Tensor v = RunOp("variance", "(f32[1,1000]) {axes=[1]}", {Row(values)})[0];
  EXPECT_NEAR(v.f[0], 1, 1e-5);
  const auto norm = RunOp("layer_norm", "(f32[1,1000])", {Row(values)});
  EXPECT_NEAR(norm[0].f[1], 1, 1e-3);
}

TEST(Convention, variance_without_degrees_of_freedom_is_nan) {
  EXPECT_TRUE(
      Same(RunOp("variance", "(f32[1,1]) {axes=[1], correction=1}", {Row({3})})[0], Row({NAN})));
}

TEST(Convention, long_sums_keep_their_accuracy) {
  for (const int64_t n : {8193, 70001, 1000003}) {
    Tensor x(Type{DType::kF32, {1, n}});
    for (int64_t k = 0; k < n; ++k) x.Set(k, 0.1);
    const Tensor row = RunOp("sum", StrCat("(", x.type.ToString(), ") {axes=[1]}"), {x})[0];
    EXPECT_NEAR(row.f[0] / (n * static_cast<double>(0.1f)), 1, 2e-6) << n;
    x.type.shape = {n, 1, 1};
    const Tensor column = RunOp("sum", StrCat("(", x.type.ToString(), ") {axes=[0]}"), {x})[0];
    EXPECT_EQ(column.f[0], row.f[0]) << "trailing axes of size 1 leave it a row";
  }
}

TEST(Convention, empty_reductions_give_identities_and_an_empty_mean_is_nan) {
  const Tensor empty(Type{DType::kF32, {2, 0}});
  const auto reduce = [&](const char* op) {
    return RunOp(op, "(f32[2,0]) {axes=[1]}", {empty})[0].f[0];
  };
  EXPECT_EQ(reduce("sum"), 0);
  EXPECT_EQ(reduce("prod"), 1);
  EXPECT_EQ(reduce("max"), -kInf);
  EXPECT_EQ(reduce("min"), kInf);
  EXPECT_EQ(reduce("logsumexp"), -kInf);
  EXPECT_TRUE(std::isnan(reduce("mean")));
}

TEST(Convention, logsumexp_is_safe_at_infinity) {
  const auto lse = [](double a, double b) {
    return RunOp("logsumexp", "(f32[1,2]) {axes=[1]}", {Row({a, b})})[0].f[0];
  };
  EXPECT_EQ(lse(-kInf, -kInf), -kInf);
  EXPECT_EQ(lse(-kInf, 2), 2);
  EXPECT_EQ(lse(kInf, 2), kInf);
  EXPECT_NEAR(lse(500, 500), 500 + std::log(2), 1e-4);
  EXPECT_TRUE(std::isnan(lse(NAN, 2)));
  const auto g = RunGrad("logsumexp", "(f32[1,2]) {axes=[1]}", {Row({-kInf, -kInf})});
  EXPECT_TRUE(Same(g.at("x"), Row({0, 0})));
}

// --- integers and casts ---

TEST(Convention, integer_arithmetic_wraps_and_division_is_total) {
  const auto i32 = [](const std::vector<double>& v) {
    return MakeTensor(DType::kI32, {static_cast<int64_t>(v.size())}, v);
  };
  const double low = -2147483648.0, high = 2147483647.0;
  EXPECT_TRUE(Same(RunOp("add", "(i32[1], i32[1])", {i32({high}), i32({1})})[0], i32({low})));
  EXPECT_TRUE(Same(RunOp("neg", "(i32[1])", {i32({low})})[0], i32({low})));
  EXPECT_TRUE(Same(RunOp("abs", "(i32[1])", {i32({low})})[0], i32({low})));
  EXPECT_TRUE(Same(RunOp("div", "(i32[4], i32[4])", {i32({7, -7, 5, low}), i32({2, 2, 0, -1})})[0],
                   i32({3, -3, 0, low})));
}

TEST(Convention, float_to_integer_truncates_and_saturates) {
  const auto x = F32({1.9, -1.9, 1e20, -1e20, NAN});
  EXPECT_TRUE(Same(RunOp("cast", "(f32[5]) {to=i32}", {x})[0],
                   MakeTensor(DType::kI32, {5}, {1, -1, 2147483647.0, -2147483648.0, 0})));
  EXPECT_TRUE(Same(RunOp("cast", "(f32[5]) {to=u8}", {x})[0],
                   MakeTensor(DType::kU8, {5}, {1, 0, 255, 0, 0})));
  EXPECT_TRUE(Same(RunOp("cast", "(f32[5]) {to=bool}", {F32({0, -0.0, 0.5, NAN, -3})})[0],
                   MakeTensor(DType::kBool, {5}, {0, 0, 1, 1, 1})));
}

TEST(Convention, comparisons_with_nan_are_false_but_for_not_equal) {
  const std::vector<Tensor> in = {F32({NAN}), F32({NAN})};
  for (const char* op : {"equal", "less", "less_equal"})
    EXPECT_EQ(RunOp(op, "(f32[1], f32[1])", in)[0].i[0], 0);
  EXPECT_EQ(RunOp("not_equal", "(f32[1], f32[1])", in)[0].i[0], 1);
}

TEST(Convention, fma_rounds_once) {
  const double a = 1 + 0x1p-23;
  const Tensor y =
      RunOp("fma", "(f32[1], f32[1], f32[1])", {F32({a}), F32({a}), F32({-1 - 0x1p-22})})[0];
  EXPECT_EQ(y.f[0], 0x1p-46);
}

TEST(Convention, select_drops_the_gradient_of_the_branch_not_taken) {
  const Tensor cond = MakeTensor(DType::kBool, {2}, {1, 0});
  const auto g =
      RunGrad("select", "(bool[2], f32[2], f32[2])", {cond, F32({NAN, NAN}), F32({1, 2})});
  EXPECT_TRUE(Same(g.at("a"), F32({1, 0})));
  EXPECT_TRUE(Same(g.at("b"), F32({0, 1})));
  EXPECT_FALSE(g.contains("cond"));
}

}  // namespace
}  // namespace stator
