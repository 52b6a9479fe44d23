// Elements of every dtype as C++ numbers, for library steps that are not worth a kernel a dtype.
#pragma once

#include "ir/dtype.h"

#include <bit>
#include <cstdint>
#include <cstring>

namespace stator {

inline float FromBF16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Nearest even; NaN stays NaN.
inline uint16_t ToBF16(float v) {
  const uint32_t u = std::bit_cast<uint32_t>(v);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

template <typename T>
T LoadAs(const char* base, int64_t k) {
  T v;
  std::memcpy(&v, base + k * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return v;
}

template <typename T>
void StoreAs(char* base, int64_t k, T v) {
  std::memcpy(base + k * static_cast<int64_t>(sizeof(T)), &v, sizeof(T));
}

// Element k of a float tensor.
inline double LoadNumber(DType dtype, const char* base, int64_t k) {
  switch (dtype) {
    case DType::kF64:
      return LoadAs<double>(base, k);
    case DType::kF32:
      return LoadAs<float>(base, k);
    case DType::kBF16:
      return FromBF16(LoadAs<uint16_t>(base, k));
    case DType::kF16:
      return BitsToFloat16(dtype, LoadAs<uint16_t>(base, k));
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return BitsToFloat8(dtype, LoadAs<uint8_t>(base, k));
    default:
      return 0;
  }
}

// Rounds once to the dtype.
inline void StoreNumber(DType dtype, char* base, int64_t k, double v) {
  switch (dtype) {
    case DType::kF64:
      return StoreAs<double>(base, k, v);
    case DType::kF32:
      return StoreAs<float>(base, k, static_cast<float>(v));
    case DType::kBF16:
      return StoreAs<uint16_t>(base, k, ToBF16(static_cast<float>(v)));
    case DType::kF16:
      return StoreAs<uint16_t>(base, k, FloatToBits16(dtype, static_cast<float>(v)));
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return StoreAs<uint8_t>(base, k, FloatToBits8(dtype, static_cast<float>(v)));
    default:
      return;
  }
}

// Element k of an integer tensor.
inline int64_t LoadInteger(DType dtype, const char* base, int64_t k) {
  switch (dtype) {
    case DType::kI64:
      return LoadAs<int64_t>(base, k);
    case DType::kI32:
      return LoadAs<int32_t>(base, k);
    case DType::kU32:
      return LoadAs<uint32_t>(base, k);
    case DType::kU16:
      return LoadAs<uint16_t>(base, k);
    case DType::kU8:
    case DType::kBool:
      return LoadAs<uint8_t>(base, k);
    default:
      return 0;
  }
}

inline void StoreInteger(DType dtype, char* base, int64_t k, int64_t v) {
  switch (dtype) {
    case DType::kI64:
      return StoreAs<int64_t>(base, k, v);
    case DType::kI32:
      return StoreAs<int32_t>(base, k, static_cast<int32_t>(v));
    case DType::kU32:
      return StoreAs<uint32_t>(base, k, static_cast<uint32_t>(v));
    case DType::kU16:
      return StoreAs<uint16_t>(base, k, static_cast<uint16_t>(v));
    case DType::kU8:
    case DType::kBool:
      return StoreAs<uint8_t>(base, k, static_cast<uint8_t>(v));
    default:
      return;
  }
}

}  // namespace stator
