#include "frontend/driver/profile_data.h"

#include "frontend/driver/html.h"

#include <gtest/gtest.h>

namespace stator {
namespace {

// 100 GB/s of copy, 1 TFLOP/s of f32 and 10 of bf16.
Profile Hand() {
  Profile p;
  p.ceilings.copy = 1e11;
  p.ceilings.matmul = {{DType::kF32, 1e12}, {DType::kBF16, 1e13}};
  // 1 GB in 20 ms: half of copy speed.
  p.steps.push_back({.program = "accumulate",
                     .runs = 2,
                     .name = "add",
                     .scope = "h.0/mlp",
                     .kind = "kernel",
                     .kernel = "k_add",
                     .bytes = 1e9,
                     .flops = 1e9,
                     .seconds = 0.02});
  p.steps.push_back({.program = "accumulate",
                     .index = 1,
                     .runs = 2,
                     .name = "add",
                     .scope = "h.11/mlp",
                     .kind = "kernel",
                     .kernel = "k_add",
                     .bytes = 1e9,
                     .flops = 1e9,
                     .seconds = 0.02});
  p.steps.push_back({.program = "update",
                     .name = "matmul",
                     .scope = "lm_head",
                     .kind = "matmul",
                     .kernel = "matmul big",
                     .dtype = DType::kBF16,
                     .bytes = 1e6,
                     .flops = 1e11,
                     .seconds = 0.02});
  return p;
}

TEST(Profile, says_how_long_no_step_ran) {
  Profile p = Hand();
  EXPECT_DOUBLE_EQ(p.between_seconds(), 0);
  // A gap of 2, a step within another, an overlap, a gap of 1.
  p.timeline = {{0, 0, 10}, {1, 12, 20}, {0, 13, 15}, {2, 19, 21}, {0, 22, 23}};
  EXPECT_DOUBLE_EQ(p.between_seconds(), 3);
}

TEST(ProfileRows, sum_runs_and_layers) {
  const std::vector<ProfileRow> kernels = KernelRows(Hand());
  ASSERT_EQ(kernels.size(), 2u);
  const ProfileRow &add = kernels[0], &matmul = kernels[1];
  EXPECT_EQ(add.name, "k_add");
  EXPECT_EQ(add.calls, 4);
  EXPECT_EQ(add.where, "h.*/mlp");
  EXPECT_DOUBLE_EQ(add.seconds, 0.08);
  EXPECT_DOUBLE_EQ(add.share, 0.8);
  EXPECT_DOUBLE_EQ(add.bytes_per_second(), 5e10);
  EXPECT_DOUBLE_EQ(add.of_copy(), 0.5);
  EXPECT_EQ(add.bound(), Bound::kMemory);
  EXPECT_EQ(matmul.bound(), Bound::kMath);
  EXPECT_DOUBLE_EQ(matmul.of_math(), 0.5);  // of bf16's ceiling
  ASSERT_EQ(ScopeRows(Hand()).size(), 2u);
  EXPECT_EQ(ScopeRows(Hand())[0].name, "h.*/mlp");
}

TEST(ProfileRows, slow_ones_are_bound_by_memory_and_below_copy_speed) {
  ASSERT_EQ(SlowRows(KernelRows(Hand())).size(), 1u);
  EXPECT_EQ(SlowRows(KernelRows(Hand()))[0].name, "k_add");
  Profile fast = Hand();
  for (ProfiledStep& s : fast.steps) s.seconds = 0.0105;
  EXPECT_TRUE(SlowRows(KernelRows(fast)).empty());
  Profile small = Hand();
  small.steps[2].seconds = 10;  // the adds are less than a hundredth
  EXPECT_TRUE(SlowRows(KernelRows(small)).empty());
}

TEST(ProfileRows, patterns_leave_numbers_of_layers_open) {
  EXPECT_EQ(ScopePattern("h.3/attn/qkv"), "h.*/attn/qkv");
  EXPECT_EQ(ScopePattern("h.12"), "h.*");
  EXPECT_EQ(ScopePattern("ln_1"), "ln_1");
  EXPECT_EQ(ScopePattern("v1.2b/x"), "v1.2b/x");
  EXPECT_EQ(ScopePattern(""), "");
}

TEST(Html, text_cannot_break_out) {
  EXPECT_EQ(HtmlText("a<b> & \"c'"), "a&lt;b&gt; &amp; &quot;c&#39;");
}

}  // namespace
}  // namespace stator
