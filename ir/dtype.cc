#include "ir/dtype.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace stator {
namespace {

struct DTypeInfo {
  std::string_view name;
  int bytes;
};

constexpr DTypeInfo kInfo[] = {
    {"f64", 8}, {"f32", 4}, {"bf16", 2}, {"f16", 2}, {"f8e4m3", 1}, {"f8e5m2", 1},
    {"i64", 8}, {"i32", 4}, {"u32", 4},  {"u16", 2}, {"u8", 1},     {"bool", 1},
};

// An IEEE-like binary format, by its mantissa bits (without the hidden one) and exponent range.
struct FloatFormat {
  int mantissa;
  int min_exponent;  // of the smallest normal
  double max_finite;
  bool has_infinity;
};

FloatFormat FormatOf(DType d) {
  switch (d) {
    case DType::kF32:
      return {23, -126, 3.4028234663852886e38, true};
    case DType::kBF16:
      return {7, -126, 3.3895313892515355e38, true};
    case DType::kF16:
      return {10, -14, 65504.0, true};
    case DType::kF8E4M3:
      return {3, -6, 448.0, false};
    case DType::kF8E5M2:
      return {2, -14, 57344.0, true};
    default:
      return {52, -1022, std::numeric_limits<double>::max(), true};
  }
}

// Encodes an already rounded value; `total` is the width in bits.
uint32_t Encode(DType d, double v, int total) {
  const FloatFormat f = FormatOf(d);
  const uint32_t sign = std::signbit(v) ? 1u << (total - 1) : 0u;
  const uint32_t exponent_mask = (1u << (total - 1 - f.mantissa)) - 1;
  if (std::isnan(v)) return (1u << (total - 1)) - 1;  // all ones but the sign: a NaN everywhere
  if (std::isinf(v)) return sign | exponent_mask << f.mantissa;
  if (v == 0) return sign;
  int e;
  std::frexp(v, &e);
  const int exponent = e - 1 < f.min_exponent ? f.min_exponent : e - 1;
  const auto m = static_cast<uint32_t>(std::ldexp(std::fabs(v), f.mantissa - exponent));
  // A normal's hidden bit carries into the exponent field; a subnormal has none.
  return sign | ((static_cast<uint32_t>(exponent - f.min_exponent) << f.mantissa) + m);
}

double Decode(DType d, uint32_t bits, int total) {
  const FloatFormat f = FormatOf(d);
  const bool negative = bits >> (total - 1) & 1u;
  const uint32_t exponent_mask = (1u << (total - 1 - f.mantissa)) - 1;
  const uint32_t e = bits >> f.mantissa & exponent_mask;
  const uint32_t m = bits & ((1u << f.mantissa) - 1);
  double v;
  if (e == exponent_mask && f.has_infinity) {
    v = m == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (e == exponent_mask && m == (1u << f.mantissa) - 1) {
    v = std::numeric_limits<double>::quiet_NaN();
  } else if (e == 0) {
    v = std::ldexp(m, f.min_exponent - f.mantissa);
  } else {
    v = std::ldexp(m | 1u << f.mantissa, f.min_exponent - f.mantissa + static_cast<int>(e) - 1);
  }
  return negative ? -v : v;
}

}  // namespace

std::string_view Name(DType dtype) { return kInfo[static_cast<int>(dtype)].name; }

std::optional<DType> ParseDType(std::string_view name) {
  for (int i = 0; i < static_cast<int>(std::size(kInfo)); ++i) {
    if (kInfo[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

int ByteWidth(DType dtype) { return kInfo[static_cast<int>(dtype)].bytes; }

double RoundFloat(DType dtype, double v) {
  if (dtype == DType::kF8E4M3 && std::isinf(v)) return std::numeric_limits<double>::quiet_NaN();
  if (dtype == DType::kF64 || std::isnan(v) || std::isinf(v) || v == 0) return v;
  if (dtype == DType::kF32) return static_cast<float>(v);
  const FloatFormat f = FormatOf(dtype);
  int e;
  std::frexp(v, &e);
  const int exponent = e - 1 < f.min_exponent ? f.min_exponent : e - 1;
  const int shift = f.mantissa - exponent;
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(v, shift)), -shift);
  if (std::fabs(rounded) <= f.max_finite) return rounded;
  if (!f.has_infinity) return std::numeric_limits<double>::quiet_NaN();
  return std::copysign(std::numeric_limits<double>::infinity(), v);
}

int64_t WrapInteger(DType dtype, int64_t v) {
  switch (dtype) {
    case DType::kI32:
      return static_cast<int32_t>(v);
    case DType::kU32:
      return static_cast<uint32_t>(v);
    case DType::kU16:
      return static_cast<uint16_t>(v);
    case DType::kU8:
      return static_cast<uint8_t>(v);
    case DType::kBool:
      return v != 0;
    default:
      return v;
  }
}

uint16_t FloatToBits16(DType dtype, float v) {
  if (dtype == DType::kBF16) {  // the hot one: host-side weights
    uint32_t bits;
    std::memcpy(&bits, &v, 4);
    if (std::isnan(v)) return 0x7fff;
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  return static_cast<uint16_t>(Encode(dtype, RoundFloat(dtype, v), 16));
}

float BitsToFloat16(DType dtype, uint16_t bits) {
  if (dtype == DType::kBF16) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float v;
    std::memcpy(&v, &wide, 4);
    return v;
  }
  return static_cast<float>(Decode(dtype, bits, 16));
}

uint8_t FloatToBits8(DType dtype, float v) {
  return static_cast<uint8_t>(Encode(dtype, RoundFloat(dtype, v), 8));
}

float BitsToFloat8(DType dtype, uint8_t bits) { return static_cast<float>(Decode(dtype, bits, 8)); }

}  // namespace stator
