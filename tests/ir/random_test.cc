// Random bits: known answers, and what enters them.
#include "ir/philox.h"
#include "tests/ir/compare.h"
#include "tests/support/op_cases.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stator {
namespace {

Tensor Seed(double a, double b) { return MakeTensor(DType::kU32, {2}, {a, b}); }
Tensor Step(double s) { return MakeTensor(DType::kI64, {}, {s}); }

// Vectors of the Random123 distribution (kat_vectors, philox4x32 10).
TEST(Philox, known_answers) {
  static_assert(Philox({0, 0, 0, 0}, {0, 0}) ==
                PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr uint32_t kOnes = 0xffffffff;
  static_assert(Philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}) ==
                PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  static_assert(
      Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
      PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST(RandomBits, counts_elements_stream_and_step) {
  const Tensor bits =
      RunOp("random_bits", "(u32[2], i64[]) {shape=[2,3], stream=5}", {Seed(7, 9), Step(11)})[0];
  for (int64_t k = 0; k < 6; ++k) {
    const PhiloxBlock words = Philox({static_cast<uint32_t>(k / 4), 0, 5, 11}, {7, 9});
    EXPECT_EQ(bits.i[k], words[k % 4]);
  }
}

TEST(RandomBits, streams_and_steps_differ) {
  const auto draw = [](const char* attrs, double step) {
    return RunOp("random_bits", StrCat("(u32[2], i64[]) ", attrs), {Seed(1, 2), Step(step)})[0].i;
  };
  EXPECT_NE(draw("{shape=[8]}", 0), draw("{shape=[8], stream=1}", 0));
  EXPECT_NE(draw("{shape=[8]}", 0), draw("{shape=[8]}", 1));
  EXPECT_EQ(draw("{shape=[8]}", 3), draw("{shape=[2,4]}", 3));
}

TEST(Uniform, is_below_one_and_even) {
  const Tensor u = RunOp("uniform", "(u32[2], i64[]) {shape=[40000]}", {Seed(1, 2), Step(0)})[0];
  double sum = 0, squares = 0;
  for (const double v : u.f) {
    EXPECT_GE(v, 0);
    EXPECT_LT(v, 1);
    EXPECT_EQ(v, std::floor(v * 0x1p24) * 0x1p-24);
    sum += v, squares += v * v;
  }
  EXPECT_NEAR(sum / 40000, 0.5, 0.01);
  EXPECT_NEAR(squares / 40000, 1.0 / 3, 0.01);
}

TEST(Dropout, keeps_its_share_scales_it_and_masks_the_gradient_alike) {
  Tensor x(Type{DType::kF32, {20000}});
  for (double& v : x.f) v = 3;
  const std::string sample = "(f32[20000], u32[2], i64[]) {rate=0.25, stream=2}";
  const Tensor y = RunOp("dropout", sample, {x, Seed(4, 5), Step(6)})[0];
  const Tensor dx = RunGrad("dropout", sample, {x, Seed(4, 5), Step(6)}).at("x");
  int64_t kept = 0;
  for (int64_t k = 0; k < y.size(); ++k) {
    EXPECT_TRUE(y.f[k] == 0 || y.f[k] == 4) << y.f[k];
    EXPECT_EQ(dx.f[k] != 0, y.f[k] != 0);
    kept += y.f[k] != 0;
  }
  EXPECT_NEAR(kept / 20000.0, 0.75, 0.015);
}

}  // namespace
}  // namespace stator
