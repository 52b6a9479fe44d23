// Attention: masks, rows that see nothing, grouped heads, dropout.
#include "ir/base/error.h"
#include "ir/text.h"
#include "tests/ir/compare.h"
#include "tests/ir/random_inputs.h"
#include "tests/support/op_cases.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stator {
namespace {

// Inputs of a sample of `attention`, by position.
std::vector<Tensor> Inputs(const std::string& sample, uint64_t seed = 3) {
  const auto graph = ParseSample(DefaultOps().Get("attention"), sample);
  const auto by_name = RandomInputs(*graph, {.seed = seed});
  std::vector<Tensor> inputs;
  for (const Param& p : graph->inputs()) inputs.push_back(by_name.at(p.name));
  return inputs;
}

constexpr char kSmall[] = "(f32[1,4,2,3], f32[1,4,2,3], f32[1,4,2,3])";

TEST(Attention, without_masks_is_the_softmax_average_of_values) {
  const auto in = Inputs(kSmall);
  const auto out = RunOp("attention", kSmall, in);
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t t = 0; t < 4; ++t) {
      double sum = 0, row[3] = {};
      for (int64_t s = 0; s < 4; ++s) {
        double score = 0;
        for (int64_t c = 0; c < 3; ++c)
          score += in[0].f[(t * 2 + h) * 3 + c] * in[1].f[(s * 2 + h) * 3 + c];
        const double e = std::exp(score / std::sqrt(3.0));
        sum += e;
        for (int64_t c = 0; c < 3; ++c) row[c] += e * in[2].f[(s * 2 + h) * 3 + c];
      }
      for (int64_t c = 0; c < 3; ++c)
        EXPECT_NEAR(out[0].f[(t * 2 + h) * 3 + c], row[c] / sum, 1e-6);
      EXPECT_NEAR(out[1].f[h * 4 + t], std::log(sum), 1e-6);
    }
  }
}

TEST(Attention, rows_that_see_nothing_are_zero_and_have_no_gradient) {
  // The first two of three queries lie before every key.
  const std::string sample =
      "(f32[1,3,1,2], f32[1,3,1,2], f32[1,3,1,2]) {causal=true, q_offset=-2}";
  const auto in = Inputs(sample);
  const auto out = RunOp("attention", sample, in);
  for (int k = 0; k < 4; ++k) EXPECT_EQ(out[0].f[k], 0);
  EXPECT_EQ(out[1].f[0], -INFINITY);
  EXPECT_EQ(out[1].f[1], -INFINITY);
  for (int k = 0; k < 2; ++k) EXPECT_FLOAT_EQ(out[0].f[4 + k], in[2].f[k]);  // sees key 0 alone
  Tensor ones(out[0].type), lse_ones(out[1].type);
  for (double& v : ones.f) v = 1;
  for (double& v : lse_ones.f) v = 1;
  const auto g = RunGrad("attention", sample, in, {ones, lse_ones});
  for (int k = 0; k < 4; ++k) EXPECT_EQ(g.at("q").f[k], 0);
  for (const auto& [name, t] : g) {
    for (const double v : t.f) EXPECT_TRUE(std::isfinite(v)) << name;
  }
  EXPECT_EQ(g.at("v").f[0], 1);
  EXPECT_EQ(g.at("v").f[2], 0);
}

TEST(Attention, a_zero_key_length_masks_its_batch_entry) {
  const std::string sample = "(f32[2,2,1,2], f32[2,3,1,2], f32[2,3,1,2], _, _, _, i32[2])";
  auto in = Inputs(sample);
  in[3] = MakeTensor(DType::kI32, {2}, {0, 3});
  const auto out = RunOp("attention", sample, in);
  for (int k = 0; k < 4; ++k) EXPECT_EQ(out[0].f[k], 0);
  EXPECT_TRUE(std::isfinite(out[1].f[2]));
}

TEST(Attention, a_masked_nan_stays_in_the_rows_that_see_it) {
  const std::string sample = "(f32[1,3,1,2], f32[1,3,1,2], f32[1,3,1,2]) {causal=true}";
  for (const int operand : {0, 1, 2}) {
    auto in = Inputs(sample);
    for (int c = 0; c < 2; ++c) in[operand].f[1 * 2 + c] = NAN;
    const auto out = RunOp("attention", sample, in);
    EXPECT_TRUE(std::isfinite(out[0].f[0]) && std::isfinite(out[0].f[1])) << operand;
    EXPECT_TRUE(std::isnan(out[0].f[2])) << operand;
    if (operand != 0) continue;
    // Key 2 is seen by the last query alone, whose gradient is whole.
    Tensor ones(out[0].type), none(out[1].type);
    for (double& v : ones.f) v = 1;
    const auto g = RunGrad("attention", sample, in, {ones, none});
    for (const std::string name : {"k", "v"}) {
      EXPECT_TRUE(std::isnan(g.at(name).f[2])) << name;
      EXPECT_TRUE(std::isfinite(g.at(name).f[4])) << name;
    }
    EXPECT_TRUE(std::isfinite(g.at("q").f[0])) << "seen by itself";
  }
}

// Packed sequences do not see each other: each segment alone gives the same rows.
TEST(Attention, segments_equal_separate_sequences) {
  const std::string packed =
      "(f32[1,5,2,4], f32[1,5,2,4], f32[1,5,2,4], _, i32[1,5], i32[1,5]) {causal=true}";
  auto in = Inputs(packed);
  in[3] = in[4] = MakeTensor(DType::kI32, {1, 5}, {0, 0, 1, 1, 1});
  const Tensor all = RunOp("attention", packed, in)[0];
  const auto rows = [&](const Tensor& x, int64_t from, int64_t to) {
    Tensor part(Type{x.type.dtype, {1, to - from, 2, 4}});
    part.f.assign(x.f.begin() + from * 8, x.f.begin() + to * 8);
    return part;
  };
  for (const auto& [from, to] : {std::pair<int64_t, int64_t>{0, 2}, {2, 5}}) {
    const std::string t = StrCat("f32[1,", to - from, ",2,4]");
    const Tensor alone =
        RunOp("attention", StrCat("(", t, ", ", t, ", ", t, ") {causal=true}"),
              {rows(in[0], from, to), rows(in[1], from, to), rows(in[2], from, to)})[0];
    EXPECT_TRUE(Near(rows(all, from, to), alone, 1e-6));
  }
}

TEST(Attention, grouped_heads_equal_repeated_keys) {
  const std::string grouped = "(f32[1,3,4,2], f32[1,3,2,2], f32[1,3,2,2]) {causal=true}";
  const auto in = Inputs(grouped);
  const auto repeat = [](const Tensor& x) {  // head h reads group h / 2
    Tensor y(Type{x.type.dtype, {1, 3, 4, 2}});
    for (int64_t s = 0; s < 3; ++s) {
      for (int64_t h = 0; h < 4; ++h) {
        for (int64_t c = 0; c < 2; ++c) y.f[(s * 4 + h) * 2 + c] = x.f[(s * 2 + h / 2) * 2 + c];
      }
    }
    return y;
  };
  const auto want = RunOp("attention", "(f32[1,3,4,2], f32[1,3,4,2], f32[1,3,4,2]) {causal=true}",
                          {in[0], repeat(in[1]), repeat(in[2])});
  const auto got = RunOp("attention", grouped, in);
  EXPECT_TRUE(Near(got[0], want[0], 1e-6));
  EXPECT_TRUE(Near(got[1], want[1], 1e-6));
}

// A window of one sees the query's own position.
TEST(Attention, a_causal_window_of_one_copies_the_value) {
  const std::string sample = "(f32[1,4,2,3], f32[1,4,2,3], f32[1,4,2,3]) {causal=true, window=1}";
  const auto in = Inputs(sample);
  EXPECT_TRUE(Near(RunOp("attention", sample, in)[0], in[2], 1e-6));
}

TEST(Attention, decoding_with_an_offset_equals_the_last_row) {
  const auto in = Inputs(kSmall);
  const Tensor all = RunOp("attention", StrCat(kSmall, " {causal=true}"), in)[0];
  Tensor last(Type{DType::kF32, {1, 1, 2, 3}});
  last.f.assign(in[0].f.begin() + 18, in[0].f.end());
  const Tensor one =
      RunOp("attention", "(f32[1,1,2,3], f32[1,4,2,3], f32[1,4,2,3]) {causal=true, q_offset=3}",
            {last, in[1], in[2]})[0];
  for (int k = 0; k < 6; ++k) EXPECT_NEAR(one.f[k], all.f[18 + k], 1e-6);
}

TEST(Attention, dropout_leaves_lse_alone_and_zeroes_whole_weights) {
  const std::string sample =
      "(f32[1,1,1,1], f32[1,64,1,1], f32[1,64,1,1], _, _, _, _, u32[2], i64[]) {dropout=0.5}";
  auto in = Inputs(sample);
  for (double& v : in[1].f) v = 0;
  for (double& v : in[2].f) v = 1;
  const auto out = RunOp("attention", sample, in);
  const double kept = out[0].f[0] * 32;  // each kept weight is 2/64
  EXPECT_NEAR(kept, std::round(kept), 1e-5);
  EXPECT_GT(kept, 10);
  EXPECT_LT(kept, 54);
  EXPECT_NEAR(out[1].f[0], std::log(64), 1e-6);
}

TEST(Attention, errors_name_both_shapes) {
  const auto message = [](const char* sample) -> std::string {
    try {
      ParseSample(DefaultOps().Get("attention"), sample);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(
      message("(f32[1,4,3,8], f32[1,4,2,8], f32[1,4,2,8])"),
      "attention: the heads of q are no multiple of the heads of k: f32[1,4,3,8] vs f32[1,4,2,8]");
  EXPECT_EQ(message("(f32[1,4,2,8], f32[1,4,2,6], f32[1,4,2,6])"),
            "attention: k must be [B,S,G,D] of q [B,T,H,D]: f32[1,4,2,6] vs f32[1,4,2,8]");
  EXPECT_EQ(message("(f32[1,4,2,8], f32[1,4,2,8], f32[1,4,2,8]) {dropout=0.1}"),
            "attention: dropout needs a seed and a step");
  EXPECT_EQ(message("(f32[1,4,2,8], f32[1,5,2,8], f32[1,5,2,8], f32[1,2,4,4])"),
            "attention: bias must be [B|1,H|1,T,S] of q: f32[1,2,4,4] vs f32[1,4,2,8]");
}

}  // namespace
}  // namespace stator
