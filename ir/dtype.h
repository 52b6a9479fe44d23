// Element types, their names, widths and rounding.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace stator {

enum class DType : uint8_t {
  kF64,
  kF32,
  kBF16,
  kF16,
  kF8E4M3,
  kF8E5M2,
  kI64,
  kI32,
  kU32,
  kU16,
  kU8,
  kBool,
};

std::string_view Name(DType dtype);  // "f32"
std::optional<DType> ParseDType(std::string_view name);
int ByteWidth(DType dtype);

constexpr bool IsFloat(DType d) { return d <= DType::kF8E5M2; }
constexpr bool IsInteger(DType d) { return d >= DType::kI64 && d <= DType::kU8; }
constexpr bool IsSigned(DType d) { return d == DType::kI64 || d == DType::kI32; }

// The dtype arithmetic is carried out in before its result is rounded: f32 for the narrow floats,
// otherwise the dtype itself.
constexpr DType ComputeType(DType d) { return IsFloat(d) && d != DType::kF64 ? DType::kF32 : d; }

// `v` rounded to nearest even in `dtype`. Overflow gives infinity (for f8e4m3, which has none:
// NaN). Integers wrap to their width; a float to integer conversion truncates first.
double RoundFloat(DType dtype, double v);
int64_t WrapInteger(DType dtype, int64_t v);

// Bit patterns, for host buffers and text files of the narrow floats.
uint16_t FloatToBits16(DType dtype, float v);
float BitsToFloat16(DType dtype, uint16_t bits);
uint8_t FloatToBits8(DType dtype, float v);
float BitsToFloat8(DType dtype, uint8_t bits);

// An f32 as two halves: the nearest bf16, ties away from zero, and the low 16 bits. With ties to
// even the low bits would not tell from which side a tie was rounded; so they do, and every f32
// comes back to the bit, but that all NaNs become one.
// What overflows is infinite, as in any rounding: the carry goes into the exponent.
inline uint16_t HighHalf(float v) {
  return v != v ? uint16_t{0x7fff}
                : static_cast<uint16_t>((std::bit_cast<uint32_t>(v) + 0x8000) >> 16);
}
inline uint16_t LowHalf(float v) {
  return v != v ? uint16_t{0} : static_cast<uint16_t>(std::bit_cast<uint32_t>(v));
}
// The upper of the low bits says whether `high` was rounded up.
inline float JoinHalves(uint16_t high, uint16_t low) {
  const uint32_t rounded = static_cast<uint32_t>(high) << 16;
  return std::bit_cast<float>(rounded + low - (static_cast<uint32_t>(low & 0x8000) << 1));
}

}  // namespace stator
