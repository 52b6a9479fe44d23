// Gather, scatter, sort, losses: indices that repeat, are ignored or are out of range.
#include "ir/base/error.h"
#include "ir/reduce_tree.h"
#include "tests/ir/compare.h"
#include "tests/ir/random_inputs.h"
#include "tests/support/op_cases.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stator {
namespace {

Tensor F32(const Dims& shape, const std::vector<double>& v) {
  return MakeTensor(DType::kF32, shape, v);
}
Tensor I32(const Dims& shape, const std::vector<double>& v) {
  return MakeTensor(DType::kI32, shape, v);
}

template <typename F>
std::string MessageOf(const F& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Gather, repeated_rows_add_their_gradients) {
  const Tensor data = F32({3, 2}, {1, 2, 3, 4, 5, 6}), ids = I32({4}, {2, 0, 2, 2});
  EXPECT_TRUE(Same(RunOp("gather", "(f32[3,2], i32[4])", {data, ids})[0],
                   F32({4, 2}, {5, 6, 1, 2, 5, 6, 5, 6})));
  const auto g = RunGrad("gather", "(f32[3,2], i32[4])", {data, ids},
                         {F32({4, 2}, {1, 10, 2, 20, 3, 30, 4, 40})});
  EXPECT_TRUE(Same(g.at("data"), F32({3, 2}, {2, 20, 0, 0, 8, 80})));
  EXPECT_FALSE(g.contains("indices"));
}

TEST(Gather, indices_replace_an_inner_axis) {
  Tensor data(Type{DType::kF32, {2, 3, 2}});
  for (int64_t k = 0; k < data.size(); ++k) data.Set(k, k);
  const Tensor y =
      RunOp("gather", "(f32[2,3,2], i32[1,2]) {axis=1}", {data, I32({1, 2}, {2, 0})})[0];
  EXPECT_TRUE(Same(y, F32({2, 1, 2, 2}, {4, 5, 0, 1, 10, 11, 6, 7})));
}

TEST(Gather, out_of_range_ids_are_errors_on_every_indexed_op) {
  const Tensor data = F32({3, 2}, {1, 2, 3, 4, 5, 6});
  for (const double bad : {-1.0, 3.0}) {
    const Tensor ids = I32({1}, {bad});
    EXPECT_EQ(MessageOf([&] {
                RunOp("gather", "(f32[3,2], i32[1])", {data, ids});
              }),
              StrCat("gather: indices holds ", static_cast<int64_t>(bad), ", not in [0,3)"));
    EXPECT_NE(MessageOf([&] {
                RunOp("segment_sum", "(f32[1], i32[1]) {rows=3}", {F32({1}, {1}), ids});
              }),
              "no error");
    EXPECT_NE(MessageOf([&] {
                RunOp("take_along", "(f32[3,2], i32[1,2]) {axis=0}", {data, I32({1, 2}, {0, bad})});
              }),
              "no error");
    EXPECT_NE(MessageOf([&] {
                RunOp("cross_entropy", "(f32[1,3], i32[1])", {F32({1, 3}, {1, 2, 3}), ids});
              }),
              "no error");
  }
}

TEST(TakeAlong, repeated_positions_add_their_gradients) {
  const auto g = RunGrad("take_along", "(f32[2,3], i32[2,2])",
                         {F32({2, 3}, {1, 2, 3, 4, 5, 6}), I32({2, 2}, {1, 1, 0, 2})},
                         {F32({2, 2}, {1, 2, 3, 4})});
  EXPECT_TRUE(Same(g.at("data"), F32({2, 3}, {0, 3, 0, 3, 0, 4})));
}

// A segment folds like a column of its own members, whatever lies between them.
TEST(SegmentSum, folds_each_segment_by_the_column_rule) {
  const int64_t n = 2000;
  Tensor updates(Type{DType::kF32, {n}}), ids(Type{DType::kI32, {n}});
  TestRandom random(5);
  std::vector<float> members;
  for (int64_t k = 0; k < n; ++k) {
    updates.Set(k, random.Uniform(-1, 1) * std::ldexp(1, static_cast<int>(random.Below(20))));
    ids.SetInt(k, random.Below(3));
    if (ids.i[k] == 1) members.push_back(static_cast<float>(updates.f[k]));
  }
  const auto add = [](float a, float b) { return a + b; };
  float lanes[kColumnLanes];
  while (members.size() > 1) {
    const auto m = static_cast<int64_t>(members.size()), chunk = ColumnChunk(m);
    std::vector<float> partials;
    for (int64_t at = 0; at < m; at += chunk) {
      partials.push_back(FoldLanes<float>(
          std::min(chunk, m - at), kColumnLanes, lanes, [&](int64_t j) { return members[at + j]; },
          add));
    }
    members = partials;
  }
  EXPECT_EQ(RunOp("segment_sum", "(f32[2000], i32[2000]) {rows=4}", {updates, ids})[0].f[1],
            members[0]);
}

TEST(Sort, is_stable_in_both_directions) {
  const Tensor x = F32({5}, {2, 1, 2, 1, 2});
  EXPECT_TRUE(Same(RunOp("sort", "(f32[5])", {x})[1], I32({5}, {1, 3, 0, 2, 4})));
  EXPECT_TRUE(Same(RunOp("sort", "(f32[5]) {descending=true}", {x})[1], I32({5}, {0, 2, 4, 1, 3})));
  EXPECT_TRUE(Same(RunOp("top_k", "(f32[5]) {k=2}", {x})[1], I32({2}, {0, 2})));
}

TEST(Sort, gradients_return_to_their_positions) {
  const auto g = RunGrad("sort", "(f32[3])", {F32({3}, {3, 1, 2})}, {F32({3}, {10, 20, 30})});
  EXPECT_TRUE(Same(g.at("x"), F32({3}, {30, 10, 20})));
  const auto k = RunGrad("top_k", "(f32[3]) {k=1}", {F32({3}, {3, 1, 2})});
  EXPECT_TRUE(Same(k.at("x"), F32({3}, {1, 0, 0})));
}

TEST(Argmax, takes_the_first_of_equals) {
  EXPECT_EQ(RunOp("argmax", "(f32[4])", {F32({4}, {1, 3, 3, 2})})[0].i[0], 1);
}

TEST(CrossEntropy, ignored_targets_give_no_loss_and_no_gradient) {
  const Tensor x = F32({2, 3}, {1, 2, 3, 3, 1, 2}), t = I32({2}, {-100, 0});
  for (const char* attrs : {"", " {label_smoothing=0.1, z_loss=0.01}"}) {
    const std::string sample = StrCat("(f32[2,3], i32[2])", attrs);
    const auto y = RunOp("cross_entropy", sample, {x, t});
    EXPECT_EQ(y[0].f[0], 0);
    EXPECT_GT(y[0].f[1], 0);
    EXPECT_NEAR(y[1].f[0], std::log(std::exp(1) + std::exp(2) + std::exp(3)), 1e-6);
    const Tensor dx = RunGrad("cross_entropy", sample, {x, t}).at("logits");
    for (int k = 0; k < 3; ++k) EXPECT_EQ(dx.f[k], 0);
    EXPECT_LT(dx.f[3], 0);
  }
}

TEST(CrossEntropy, smoothing_and_z_loss_follow_their_formula) {
  const std::vector<double> v = {0.5, -1, 2};
  const auto y = RunOp("cross_entropy", "(f32[1,3], i32[1]) {label_smoothing=0.3, z_loss=0.1}",
                       {F32({1, 3}, v), I32({1}, {2})});
  double lse = 0;
  for (const double x : v) lse += std::exp(x);
  lse = std::log(lse);
  const double smooth = 0.3 / 3 * ((lse - v[0]) + (lse - v[1]) + (lse - v[2]));
  EXPECT_NEAR(y[0].f[0], 0.7 * (lse - 2) + smooth + 0.1 * lse * lse, 1e-6);
}

TEST(CrossEntropy, large_logits_are_safe) {
  const auto y =
      RunOp("cross_entropy", "(f32[1,2], i32[1])", {F32({1, 2}, {1000, -1000}), I32({1}, {1})});
  EXPECT_EQ(y[0].f[0], 2000);
}

}  // namespace
}  // namespace stator
