// Rounding and encoding of the element types.
#include "ir/dtype.h"

#include "tests/ir/compare.h"
#include "tests/ir/random_inputs.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

namespace stator {
namespace {

constexpr DType kAll[] = {DType::kF64,    DType::kF32,    DType::kBF16, DType::kF16,
                          DType::kF8E4M3, DType::kF8E5M2, DType::kI64,  DType::kI32,
                          DType::kU32,    DType::kU16,    DType::kU8,   DType::kBool};

TEST(DType, names_round_trip) {
  for (const DType d : kAll) EXPECT_EQ(ParseDType(Name(d)), d);
  EXPECT_FALSE(ParseDType("f31").has_value());
}

TEST(DType, rounds_to_nearest_even) {
  EXPECT_EQ(RoundFloat(DType::kBF16, 1 + 0x1p-8), 1);               // a tie, down to even
  EXPECT_EQ(RoundFloat(DType::kBF16, 1 + 3 * 0x1p-8), 1 + 0x1p-6);  // a tie, up to even
  EXPECT_EQ(RoundFloat(DType::kBF16, 1 + 0x1.1p-8), 1 + 0x1p-7);
  EXPECT_EQ(RoundFloat(DType::kF16, 2049), 2048);
  EXPECT_EQ(RoundFloat(DType::kF16, 2051), 2052);
  EXPECT_EQ(RoundFloat(DType::kF32, 16777217), 16777216);
}

TEST(DType, overflow_is_infinite_and_nan_in_f8e4m3) {
  EXPECT_EQ(RoundFloat(DType::kF16, 65519), 65504);
  EXPECT_EQ(RoundFloat(DType::kF16, 65520), INFINITY);
  EXPECT_EQ(RoundFloat(DType::kBF16, -3.4e38), -INFINITY);
  EXPECT_EQ(RoundFloat(DType::kF8E5M2, 1e9), INFINITY);
  EXPECT_EQ(RoundFloat(DType::kF8E4M3, 464), 448);
  EXPECT_TRUE(std::isnan(RoundFloat(DType::kF8E4M3, 480)));
  EXPECT_TRUE(std::isnan(RoundFloat(DType::kF8E4M3, INFINITY)));
}

TEST(DType, subnormals_round_too) {
  EXPECT_EQ(RoundFloat(DType::kF16, 0x1p-24), 0x1p-24);
  EXPECT_EQ(RoundFloat(DType::kF16, 0x1p-25), 0);
  EXPECT_EQ(RoundFloat(DType::kF16, 1.5 * 0x1p-24), 0x1p-23);
  EXPECT_EQ(RoundFloat(DType::kF8E4M3, 0x1p-9), 0x1p-9);
  EXPECT_TRUE(std::signbit(RoundFloat(DType::kF16, -0x1p-30)));
}

TEST(DType, every_narrow_bit_pattern_survives) {
  for (const DType d : {DType::kBF16, DType::kF16}) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const float v = BitsToFloat16(d, static_cast<uint16_t>(bits));
      if (std::isnan(v)) continue;
      ASSERT_EQ(RoundFloat(d, v), v) << Name(d) << " " << bits;
      ASSERT_EQ(FloatToBits16(d, v), bits) << Name(d);
    }
  }
  for (const DType d : {DType::kF8E4M3, DType::kF8E5M2}) {
    for (uint32_t bits = 0; bits < 256; ++bits) {
      const float v = BitsToFloat8(d, static_cast<uint8_t>(bits));
      if (std::isnan(v)) continue;
      ASSERT_EQ(RoundFloat(d, v), v) << Name(d) << " " << bits;
      ASSERT_EQ(FloatToBits8(d, v), bits) << Name(d);
    }
  }
}

TEST(DType, f32_rounding_is_the_hardwares) {
  TestRandom random(3);
  for (int k = 0; k < 10000; ++k) {
    const double v =
        random.Uniform(-1, 1) * std::ldexp(1, static_cast<int>(random.Below(300)) - 150);
    const auto f = static_cast<float>(v);
    EXPECT_EQ(RoundFloat(DType::kF32, v), f);
    // bf16 by way of its bit trick equals rounding in general.
    EXPECT_EQ(BitsToFloat16(DType::kBF16, FloatToBits16(DType::kBF16, f)),
              RoundFloat(DType::kBF16, f));
  }
}

float FromBits(uint32_t bits) { return std::bit_cast<float>(bits); }

// All bf16s, with low bits around both ends and the tie.
TEST(DType, f32_comes_back_from_its_halves) {
  TestRandom random(4);
  for (uint32_t upper = 0; upper < 65536; ++upper) {
    for (const uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu,
                               static_cast<uint32_t>(random.Below(65536))}) {
      const float v = FromBits(upper << 16 | low);
      const float joined = JoinHalves(HighHalf(v), LowHalf(v));
      if (std::isnan(v)) {
        ASSERT_EQ(std::bit_cast<uint32_t>(joined), 0x7fff0000u);
        continue;
      }
      ASSERT_EQ(std::bit_cast<uint32_t>(joined), std::bit_cast<uint32_t>(v));
      if (low == 0x8000) continue;
      ASSERT_EQ(HighHalf(v), FloatToBits16(DType::kBF16, v)) << upper << " " << low;
    }
  }
}

TEST(DType, high_half_takes_ties_away_from_zero) {
  const auto high = [](uint32_t bits) { return HighHalf(FromBits(bits)); };
  EXPECT_EQ(high(0x3f808000), 0x3f81);  // to even: 0x3f80
  EXPECT_EQ(high(0xbf808000), 0xbf81);
  EXPECT_EQ(high(0x00008000), 0x0001);  // a subnormal
  EXPECT_EQ(high(0x7f7f8000), 0x7f80);  // infinite, as to even
  EXPECT_EQ(high(0x7f7f7fff), 0x7f7f);
}

TEST(DType, integers_wrap) {
  EXPECT_EQ(WrapInteger(DType::kI32, int64_t{1} << 31), -2147483648);
  EXPECT_EQ(WrapInteger(DType::kU32, -1), 4294967295);
  EXPECT_EQ(WrapInteger(DType::kU16, 65537), 1);
  EXPECT_EQ(WrapInteger(DType::kU8, -1), 255);
  EXPECT_EQ(WrapInteger(DType::kBool, 7), 1);
}

TEST(Tensor, bytes_round_trip_in_every_dtype) {
  for (const DType d : kAll) {
    Tensor t(Type{d, {3, 5}});
    TestRandom random(5);
    for (int64_t k = 0; k < t.size(); ++k) t.Set(k, std::floor(random.Uniform(0, 9)));
    const auto bytes = t.ToBytes();
    EXPECT_EQ(static_cast<int64_t>(bytes.size()), t.type.Bytes());
    EXPECT_TRUE(Same(Tensor::FromBytes(t.type, bytes.data()), t)) << Name(d);
  }
}

}  // namespace
}  // namespace stator
