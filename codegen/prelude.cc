#include "codegen/prelude.h"

namespace stator {
namespace {

// What both languages share. ST_FN marks a function for the device; ST_FMA(f) is a fused multiply-add.
constexpr const char* kShared = R"(
// The first NaN, else the larger one, `b` when neither is.
template <typename T> ST_FN T st_max(T a, T b) { return (a > b) | (a != a) ? a : b; }
template <typename T> ST_FN T st_min(T a, T b) { return (a < b) | (a != a) ? a : b; }
ST_FN float st_div(float a, float b) { return a / b; }
ST_FN double st_div(double a, double b) { return a / b; }
ST_FN int st_div(int a, int b) { return b == 0 ? 0 : b == -1 ? (int)(0u - (unsigned)a) : a / b; }
ST_FN long long st_div(long long a, long long b) {
  return b == 0 ? 0 : b == -1 ? (long long)(0ull - (unsigned long long)a) : a / b;
}
ST_FN unsigned st_div(unsigned a, unsigned b) { return b == 0 ? 0 : a / b; }
ST_FN unsigned short st_div(unsigned short a, unsigned short b) { return b == 0 ? 0 : a / b; }
ST_FN unsigned char st_div(unsigned char a, unsigned char b) { return b == 0 ? 0 : a / b; }
ST_FN int st_abs(int x) { return x < 0 ? (int)(0u - (unsigned)x) : x; }
ST_FN long long st_abs(long long x) { return x < 0 ? (long long)(0ull - (unsigned long long)x) : x; }
template <typename T> ST_FN T st_rsqrt(T x) { return T(1) / st_sqrt(x); }

// Truncation that saturates; NaN gives 0.
ST_FN int st_to_int(float x) {
  return x != x ? 0 : x >= 2147483648.0f ? 2147483647 : x <= -2147483648.0f ? -2147483647 - 1 : (int)x;
}
ST_FN int st_to_int(double x) {
  return x != x ? 0 : x >= 2147483648.0 ? 2147483647 : x <= -2147483648.0 ? -2147483647 - 1 : (int)x;
}
template <typename F> ST_FN long long st_to_long(F x) {
  return x != x ? 0 : x >= F(9223372036854775808.0) ? 9223372036854775807ll
       : x <= F(-9223372036854775808.0) ? -9223372036854775807ll - 1 : (long long)x;
}
template <typename F> ST_FN unsigned st_to_unsigned(F x, unsigned high) {
  return !(x > F(0)) ? 0u : x >= F(high) ? high : (unsigned)x;
}

// f8 formats, by search-free arithmetic on the f32 bits. `bias` and `mantissa` describe the format.
ST_FN float st_round_f8(float x, int mantissa, int min_exponent, float largest, bool infinite) {
  const unsigned u = st_float_bits(x) & 0x7fffffffu;
  if (u >= 0x7f800000u) return u > 0x7f800000u || infinite ? x : st_bits_float(0x7fc00000u);
  int e = (int)(u >> 23) - 127;
  if (e < min_exponent) e = min_exponent;
  const float ulp = st_bits_float((unsigned)(e - mantissa + 127) << 23);
  const float r = st_rint(x / ulp) * ulp;
  if ((st_float_bits(r) & 0x7fffffffu) <= st_float_bits(largest)) return r;
  return infinite ? st_bits_float((st_float_bits(x) & 0x80000000u) | 0x7f800000u)
                  : st_bits_float(0x7fc00000u);
}
ST_FN unsigned char st_f8_bits(float r, int mantissa, int min_exponent) {  // r already rounded
  const unsigned u = st_float_bits(r), a = u & 0x7fffffffu, sign = u >> 24 & 0x80u;
  if (a > 0x7f800000u) return 0x7f;
  if (a == 0x7f800000u) return (unsigned char)(sign | 0x7cu);
  int e = (int)(a >> 23) - 127;
  if (e < min_exponent) e = min_exponent;
  const float ulp = st_bits_float((unsigned)(e - mantissa + 127) << 23);
  const unsigned m = (unsigned)(st_bits_float(a) / ulp);
  return (unsigned char)(sign | (((unsigned)(e - min_exponent) << mantissa) + m));
}
ST_FN float st_f8_value(unsigned char b, int mantissa, int min_exponent, bool infinite) {
  const unsigned exponents = (1u << (7 - mantissa)) - 1, e = b >> mantissa & exponents;
  const unsigned m = b & ((1u << mantissa) - 1), sign = (unsigned)(b & 0x80u) << 24;
  if (infinite && e == exponents) return st_bits_float(sign | (m ? 0x7fc00000u : 0x7f800000u));
  if (!infinite && (b & 0x7f) == 0x7f) return st_bits_float(0x7fc00000u);
  const int scale = min_exponent - mantissa + (e ? (int)e - 1 : 0);
  const float ulp = st_bits_float((unsigned)(scale + 127) << 23);
  return st_bits_float(sign | st_float_bits((float)(e ? m | 1u << mantissa : m) * ulp));
}
struct st_e4m3 { unsigned char bits; };
struct st_e5m2 { unsigned char bits; };
ST_FN float st_round(float x, st_e4m3) { return st_round_f8(x, 3, -6, 448.0f, false); }
ST_FN float st_round(float x, st_e5m2) { return st_round_f8(x, 2, -14, 57344.0f, true); }
ST_FN float st_get(st_e4m3 x) { return st_f8_value(x.bits, 3, -6, false); }
ST_FN float st_get(st_e5m2 x) { return st_f8_value(x.bits, 2, -14, true); }
ST_FN void st_put(st_e4m3* p, float x) { p->bits = st_f8_bits(st_round(x, st_e4m3()), 3, -6); }
ST_FN void st_put(st_e5m2* p, float x) { p->bits = st_f8_bits(st_round(x, st_e5m2()), 2, -14); }

ST_FN float st_get(st_bf16 x) { return st_bits_float((unsigned)x.bits << 16); }
ST_FN void st_put(st_bf16* p, float x) { p->bits = st_bf16_bits(x); }
ST_FN float st_get(st_f16 x) { return st_half_value(x.bits); }
ST_FN void st_put(st_f16* p, float x) { p->bits = st_half_bits(x); }
ST_FN float st_round(float x, st_f16) { return st_half_value(st_half_bits(x)); }
template <typename T> ST_FN T st_get(T x) { return x; }
template <typename T> ST_FN void st_put(T* p, T x) { *p = x; }
ST_FN void st_put(unsigned char* p, bool x) { *p = x; }

// Words `i`, i + 1, i + 2 and i + 3 of the stream, `i` a multiple of 4: Philox4x32-10 with counter
// (i / 4, stream, step) and the seed as key.
ST_FN void st_philox(unsigned k0, unsigned k1, unsigned long long i, unsigned stream, unsigned step,
                     unsigned (&w)[4]) {
  unsigned c0 = (unsigned)(i >> 2), c1 = (unsigned)(i >> 34), c2 = stream, c3 = step;
  for (int round = 0; round < 10; ++round) {
    const unsigned long long a = 0xD2511F53ull * c0, b = 0xCD9E8D57ull * c2;
    const unsigned n0 = (unsigned)(b >> 32) ^ c1 ^ k0, n2 = (unsigned)(a >> 32) ^ c3 ^ k1;
    c1 = (unsigned)b;
    c3 = (unsigned)a;
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  w[0] = c0;
  w[1] = c1;
  w[2] = c2;
  w[3] = c3;
}
ST_FN unsigned st_random(unsigned k0, unsigned k1, unsigned long long i, unsigned stream,
                         unsigned step) {
  unsigned w[4];
  st_philox(k0, k1, i, stream, step, w);
  const unsigned k = (unsigned)i & 3u;
  return k == 0 ? w[0] : k == 1 ? w[1] : k == 2 ? w[2] : w[3];
}

// The folds of ir/reduce_tree.h: elements and accumulators (`acc`) combine by `of`, and `result` is what
// an accumulator stands for. `identity()` leaves every value unchanged, bit for bit. `symmetric`: of(a, b)
// and of(b, a) are the same bits.
template <typename T> struct st_sum {
  typedef T acc;
  static constexpr bool symmetric = true;
  ST_FN T identity() { return T(-0.0); }
  ST_FN T of(T a, T b) { return a + b; }
  ST_FN T result(T a) { return a; }
};
template <typename T> struct st_prod {
  typedef T acc;
  static constexpr bool symmetric = true;
  ST_FN T identity() { return T(1); }
  ST_FN T of(T a, T b) { return a * b; }
  ST_FN T result(T a) { return a; }
};
template <typename T> struct st_maximum {
  typedef T acc;
  static constexpr bool symmetric = false;
  ST_FN T identity() { return st_lowest(T()); }
  ST_FN T of(T a, T b) { return st_max(a, b); }
  ST_FN T result(T a) { return a; }
};
template <typename T> struct st_minimum {
  typedef T acc;
  static constexpr bool symmetric = false;
  ST_FN T identity() { return st_highest(T()); }
  ST_FN T of(T a, T b) { return st_min(a, b); }
  ST_FN T result(T a) { return a; }
};
template <typename T> struct st_any {
  typedef T acc;
  static constexpr bool symmetric = true;
  ST_FN T identity() { return T(0); }
  ST_FN T of(T a, T b) { return a || b; }
  ST_FN T result(T a) { return a; }
};
template <typename T> struct st_all {
  typedef T acc;
  static constexpr bool symmetric = true;
  ST_FN T identity() { return T(1); }
  ST_FN T of(T a, T b) { return a && b; }
  ST_FN T result(T a) { return a; }
};
)";

constexpr const char* kLogSumExp = R"(
// log(sum(exp(x))) in one sweep: exp(largest) * sum. One exponential an element: either the element or
// what is there already is scaled, by the smaller over the larger. Infinities count as the largest number.
template <typename T> struct st_logsumexp_acc {
  T largest, sum;
  st_logsumexp_acc() = default;
  ST_MEMBER st_logsumexp_acc(T l, T s) : largest(l), sum(s) {}
  ST_MEMBER st_logsumexp_acc(T x)
      : largest(st_max(st_min(x, st_most(T())), -st_most(T()))), sum(x < -st_most(T()) ? T(0) : T(1)) {}
};
template <typename T> struct st_logsumexp {
  typedef st_logsumexp_acc<T> acc;
  static constexpr bool symmetric = true;
  ST_FN acc identity() { return acc(-st_most(T()), T(0)); }
  ST_FN acc of(acc a, T x) {
    x = st_minimum<T>::of(x, st_most(T()));
    const bool above = x > a.largest;
    const T smaller = st_exp_sub(T(0), st_abs(x - a.largest));
    return acc(above ? x : a.largest, st_fma(a.sum, above ? smaller : T(1), above ? T(1) : smaller));
  }
  ST_FN acc of(acc a, acc b) {
    const bool above = b.largest > a.largest;
    const T smaller = st_exp_sub(T(0), st_abs(b.largest - a.largest));
    const T x = above ? a.sum * smaller : a.sum, y = above ? b.sum : b.sum * smaller;
    return acc(above ? b.largest : a.largest, x + y);
  }
  ST_FN T result(acc a) {
    return a.sum != a.sum ? a.sum : a.largest >= st_most(T()) ? T(st_infinity) : a.largest + st_log(a.sum);
  }
};
)";

constexpr const char* kLimits = R"(
ST_FN float st_most(float) { return 3.402823466e38f; }
ST_FN double st_most(double) { return 1.7976931348623157e308; }
ST_FN float st_lowest(float) { return -st_infinity; }
ST_FN float st_highest(float) { return st_infinity; }
ST_FN double st_lowest(double) { return -(double)st_infinity; }
ST_FN double st_highest(double) { return (double)st_infinity; }
ST_FN int st_lowest(int) { return -2147483647 - 1; }
ST_FN int st_highest(int) { return 2147483647; }
ST_FN long long st_lowest(long long) { return -9223372036854775807ll - 1; }
ST_FN long long st_highest(long long) { return 9223372036854775807ll; }
ST_FN unsigned st_lowest(unsigned) { return 0; }
ST_FN unsigned st_highest(unsigned) { return 4294967295u; }
ST_FN unsigned short st_lowest(unsigned short) { return 0; }
ST_FN unsigned short st_highest(unsigned short) { return 65535; }
ST_FN unsigned char st_lowest(unsigned char) { return 0; }
ST_FN unsigned char st_highest(unsigned char) { return 255; }
ST_FN bool st_lowest(bool) { return false; }
ST_FN bool st_highest(bool) { return true; }
)";

constexpr const char* kCppHead = R"(// Generated by Stator.
#include <cmath>
#include <cstdint>
#include <cstring>

#define ST_FN static inline __attribute__((always_inline))
#define ST_MEMBER inline __attribute__((always_inline))
static constexpr float st_infinity = __builtin_inff();
struct st_bf16 { unsigned short bits; };
struct st_f16 { unsigned short bits; };
// Set when a kernel met an index out of range: its value and the bound. The runtime reports it.
extern "C" { long long st_bad_index[2] = {0, 0}; }
ST_FN long long st_index(long long i, long long limit) {
  if (i >= 0 && i < limit) return i;
  st_bad_index[0] = i;
  st_bad_index[1] = limit;
  return 0;
}
ST_FN float st_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
ST_FN double st_fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
ST_FN float st_sqrt(float x) { return __builtin_sqrtf(x); }
ST_FN double st_sqrt(double x) { return __builtin_sqrt(x); }
ST_FN float st_floor(float x) { return __builtin_floorf(x); }
ST_FN double st_floor(double x) { return __builtin_floor(x); }
ST_FN float st_rint(float x) { return __builtin_rintf(x); }
ST_FN float st_abs(float x) { return __builtin_fabsf(x); }
ST_FN double st_abs(double x) { return __builtin_fabs(x); }
ST_FN bool st_is_finite(float x) { return __builtin_fabsf(x) < st_infinity; }
ST_FN bool st_is_finite(double x) { return __builtin_fabs(x) < (double)st_infinity; }
ST_FN float st_bits_float(unsigned u) { float f; __builtin_memcpy(&f, &u, 4); return f; }
ST_FN unsigned st_float_bits(float f) { unsigned u; __builtin_memcpy(&u, &f, 4); return u; }

// exp by 2^n * e^r, |r| <= ln(2)/2; branch-free, so that loops vectorize. 2^n is applied in two
// halves, which gives infinities and subnormals without special cases.
ST_FN float st_exp(float x) {
  const float c = x > 89.0f ? 89.0f : x < -104.0f ? -104.0f : x;
  const float n = __builtin_rintf(c * 1.44269504088896341f);
  float r = st_fma(n, -0.693145751953125f, c);
  r = st_fma(n, -1.42860682030941723212e-6f, r);
  float p = 0.0013941209763288498f;
  p = st_fma(p, r, 0.00836323481053114f);
  p = st_fma(p, r, 0.04166637361049652f);
  p = st_fma(p, r, 0.16666576266288757f);
  p = st_fma(p, r, 0.5f);
  p = st_fma(r * r, p, r) + 1.0f;
  const int i = (int)n, half = i >> 1;
  const float y = p * st_bits_float((unsigned)(half + 127) << 23) *
                  st_bits_float((unsigned)(i - half + 127) << 23);
  return x != x ? x : y;
}
// log by m * 2^e, sqrt(1/2) <= m < sqrt(2).
ST_FN float st_log(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const unsigned u = st_float_bits(tiny ? x * 8388608.0f : x);
  const int shifted = (int)(u - 0x3f3504f3u) >> 23;
  const float e = (float)(shifted - (tiny ? 23 : 0));
  const float f = st_bits_float(u - ((unsigned)shifted << 23)) - 1.0f;
  float p = -0.07865286618471146f;
  p = st_fma(p, f, 0.12879137694835663f);
  p = st_fma(p, f, -0.13125327229499817f);
  p = st_fma(p, f, 0.14181430637836456f);
  p = st_fma(p, f, -0.16624967753887177f);
  p = st_fma(p, f, 0.20002281665802002f);
  p = st_fma(p, f, -0.2500079572200775f);
  p = st_fma(p, f, 0.33333316445350647f);
  const float z = f * f;
  float y = st_fma(p * f, z, e * -2.12194440054690583e-4f);
  y = st_fma(-0.5f, z, y);
  y = (f + y) + e * 0.693359375f;
  y = x == st_infinity ? x : y;
  y = x == 0.0f ? -st_infinity : y;
  return x < 0.0f || x != x ? __builtin_nanf("") : y;
}
ST_FN float st_log1p(float x) {
  const float u = 1.0f + x;
  const float y = st_log(u) + (u == st_infinity ? 0.0f : (x - (u - 1.0f)) / u);
  return u == 1.0f ? x : u == 0.0f ? -st_infinity : y;
}
ST_FN float st_tanh(float x) {
  const float a = __builtin_fabsf(x), z = x * x;
  float p = -0.006113121286034584f;
  p = st_fma(p, z, 0.0210100207477808f);
  p = st_fma(p, z, -0.05385405197739601f);
  p = st_fma(p, z, 0.13332794606685638f);
  p = st_fma(p, z, -0.333333283662796f);
  const float near = st_fma(p * z, x, x);
  const float far = 1.0f - 2.0f / (st_exp(2.0f * a) + 1.0f);
  return a < 0.625f ? near : __builtin_copysignf(far, x);
}
ST_FN float st_erf(float x) {
  const float a = __builtin_fabsf(x), z = x * x;
  float p = -9.680132279754616e-06f;
  p = st_fma(p, z, 0.00011270542745478451f);
  p = st_fma(p, z, -0.00084847112884745f);
  p = st_fma(p, z, 0.005221074912697077f);
  p = st_fma(p, z, -0.02686544507741928f);
  p = st_fma(p, z, 0.11283782869577408f);
  p = st_fma(p, z, -0.37612637877464294f);
  p = st_fma(p, z, 1.128379225730896f);
  const float t = 1.0f / (a < 1.0f ? 1.0f : a);
  float q = -0.01568647287786007f;
  q = st_fma(q, t, 0.11146313697099686f);
  q = st_fma(q, t, -0.3378419280052185f);
  q = st_fma(q, t, 0.5600882768630981f);
  q = st_fma(q, t, -0.4971543550491333f);
  q = st_fma(q, t, 0.0481671504676342f);
  q = st_fma(q, t, 0.5582333207130432f);
  q = st_fma(q, t, 0.0003145250666420907f);
  const float far = a > 4.0f ? 1.0f : 1.0f - st_exp(-z) * q;
  return x != x ? x : a < 1.0f ? p * x : __builtin_copysignf(far, x);
}
ST_FN float st_sin(float x) { return std::sin(x); }
ST_FN float st_cos(float x) { return std::cos(x); }
ST_FN float st_pow(float a, float b) { return std::pow(a, b); }
ST_FN double st_exp(double x) { return std::exp(x); }
ST_FN double st_log(double x) { return std::log(x); }
ST_FN double st_log1p(double x) { return std::log1p(x); }
ST_FN double st_tanh(double x) { return std::tanh(x); }
ST_FN double st_erf(double x) { return std::erf(x); }
ST_FN double st_sin(double x) { return std::sin(x); }
ST_FN double st_cos(double x) { return std::cos(x); }
ST_FN double st_pow(double a, double b) { return std::pow(a, b); }
template <typename T> ST_FN T st_exp_sub(T a, T b) { return st_exp(a - b); }
template <typename T> ST_FN T st_sigmoid(T x) { return T(1) / (T(1) + st_exp(-x)); }

ST_FN unsigned short st_bf16_bits(float x) {
  const unsigned u = st_float_bits(x);
  return x != x ? 0x7fff : (unsigned short)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}
ST_FN float st_round(float x, st_bf16) { return st_bits_float((unsigned)st_bf16_bits(x) << 16); }
)";

// f16 by its bits: conversion instructions are not everywhere.
constexpr const char* kCppHalf = R"(// Rounds to nearest even.
ST_FN unsigned short st_half_bits(float x) {
  unsigned u = st_float_bits(x), sign = u >> 16 & 0x8000u;
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) return (unsigned short)(sign | 0x7fffu);
  if (u >= 0x477ff000u) return (unsigned short)(sign | 0x7c00u);
  if (u < 0x38800000u) {
    const float scaled = st_bits_float(u) + 0.5f;  // rounds at 2^-24
    return (unsigned short)(sign | (st_float_bits(scaled) - 0x3f000000u));
  }
  return (unsigned short)(sign | ((u + 0xfffu + (u >> 13 & 1u) - 0x38000000u) >> 13));
}
ST_FN float st_half_value(unsigned short h) {
  const unsigned sign = (unsigned)(h & 0x8000u) << 16, e = h >> 10 & 31u, m = h & 0x3ffu;
  if (e == 31) return st_bits_float(sign | 0x7f800000u | m << 13);
  if (e == 0) return st_bits_float(sign | st_float_bits((float)m * 5.9604644775390625e-8f));
  return st_bits_float(sign | (e + 112) << 23 | m << 13);
}
)";

// Combines neighbours until one lane is left; `width` is a power of two.
constexpr const char* kCppTail = R"(
template <typename Op, typename T> static inline T st_fold_lanes(T* a, long long width) {
  for (long long w = width / 2; w >= 1; w /= 2) {
#pragma GCC ivdep
    for (long long k = 0; k < w; ++k) a[k] = Op::of(a[2 * k], a[2 * k + 1]);
  }
  return a[0];
}
)";

constexpr const char* kCudaHead = R"(// Generated by Stator.
#define ST_FN static __device__ __forceinline__
#define ST_MEMBER __device__ __forceinline__
#pragma nv_diag_suppress 177  // a variable that a kernel turned out not to need
#define st_infinity __int_as_float(0x7f800000)
struct st_bf16 { unsigned short bits; };
struct st_f16 { unsigned short bits; };
// First in every kernel: the next one may be launched now, and this one touches memory when all before
// it has ended (runtime/cuda/library.h).
ST_FN void st_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
ST_FN float st_bits_float(unsigned u) { return __uint_as_float(u); }
ST_FN unsigned st_float_bits(float f) { return __float_as_uint(f); }
ST_FN float st_fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
ST_FN double st_fma(double a, double b, double c) { return __fma_rn(a, b, c); }
ST_FN float st_sqrt(float x) { return __fsqrt_rn(x); }
ST_FN double st_sqrt(double x) { return __dsqrt_rn(x); }
ST_FN float st_floor(float x) { return floorf(x); }
ST_FN double st_floor(double x) { return floor(x); }
ST_FN float st_rint(float x) { return rintf(x); }
ST_FN float st_abs(float x) { return fabsf(x); }
ST_FN double st_abs(double x) { return fabs(x); }
ST_FN bool st_is_finite(float x) { return fabsf(x) < st_infinity; }
ST_FN bool st_is_finite(double x) { return fabs(x) < (double)st_infinity; }
ST_FN float st_exp(float x) { return expf(x); }
// The fast exponential: off by |x| 6e-8 of its value, 0 instead of subnormals.
ST_FN float st_exp_near(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504f));
  return y;
}
ST_FN float st_exp_sub(float a, float b) { return st_exp_near(a - b); }
ST_FN float st_sigmoid(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(1.0f + st_exp_near(-x)));
  return y;
}
ST_FN double st_exp_sub(double a, double b) { return exp(a - b); }
ST_FN double st_sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
ST_FN float st_log(float x) { return logf(x); }
ST_FN float st_log1p(float x) { return log1pf(x); }
ST_FN float st_tanh(float x) { return tanhf(x); }
ST_FN float st_erf(float x) { return erff(x); }
ST_FN float st_sin(float x) { return sinf(x); }
ST_FN float st_cos(float x) { return cosf(x); }
ST_FN float st_pow(float a, float b) { return powf(a, b); }
ST_FN double st_exp(double x) { return exp(x); }
ST_FN double st_log(double x) { return log(x); }
ST_FN double st_log1p(double x) { return log1p(x); }
ST_FN double st_tanh(double x) { return tanh(x); }
ST_FN double st_erf(double x) { return erf(x); }
ST_FN double st_sin(double x) { return sin(x); }
ST_FN double st_cos(double x) { return cos(x); }
ST_FN double st_pow(double a, double b) { return pow(a, b); }
// Stops the device: the run fails, nothing is written out of bounds. Predicated, so that warps stay
// together.
ST_FN long long st_index(long long i, long long limit) {
  asm volatile("{\n .reg .pred out;\n setp.ge.u64 out, %0, %1;\n @out trap;\n}" ::"l"(i), "l"(limit));
  return i;
}
// The conversions of pairs run at full rate, those of single values at an eighth of it. The first
// source is the upper half.
ST_FN unsigned st_bf16_pair(float high, float low) {
  unsigned r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
ST_FN unsigned short st_bf16_bits(float x) { return (unsigned short)st_bf16_pair(0.0f, x); }
ST_FN float st_max_or_nan(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
ST_FN float st_min_or_nan(float a, float b) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
ST_FN float st_round(float x, st_bf16) { return st_bits_float(st_bf16_pair(x, 0.0f)); }
// Loads where the text says, all bytes at once: the compiler likes to take words apart and to move the
// parts to where each is used.
ST_FN uint4 st_load_word(const uint4* p) {
  uint4 w;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(p) : "memory");
  return w;
}
ST_FN uint2 st_load_word(const uint2* p) {
  uint2 w;
  asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(w.x), "=r"(w.y) : "l"(p) : "memory");
  return w;
}
template <typename W> ST_FN W st_load_word(const W* p) { return *p; }
ST_FN unsigned short st_half_bits(float x) {
  unsigned r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(0.0f), "f"(x));
  return (unsigned short)r;
}
ST_FN float st_half_value(unsigned short h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
)";

constexpr const char* kCudaTail = R"(
// In one instruction, for which +0 is larger than -0.
template <> struct st_maximum<float> {
  typedef float acc;
  static constexpr bool symmetric = true;
  ST_FN float identity() { return -st_infinity; }
  ST_FN float of(float a, float b) { return st_max_or_nan(a, b); }
  ST_FN float result(float a) { return a; }
};
template <> struct st_minimum<float> {
  typedef float acc;
  static constexpr bool symmetric = true;
  ST_FN float identity() { return st_infinity; }
  ST_FN float of(float a, float b) { return st_min_or_nan(a, b); }
  ST_FN float result(float a) { return a; }
};
// V consecutive elements at once, in words of at most 16 bytes; `p` is aligned to V elements.
template <int Bytes> struct st_word;
template <> struct st_word<1> { typedef unsigned char type; };
template <> struct st_word<2> { typedef unsigned short type; };
template <> struct st_word<4> { typedef unsigned type; };
template <> struct st_word<8> { typedef uint2 type; };
template <> struct st_word<16> { typedef uint4 type; };
template <typename T, int V> struct st_vec {
  static constexpr int bytes = V * sizeof(T), word = bytes < 16 ? bytes : 16, words = bytes / word;
  typedef typename st_word<word>::type W;
  union {
    W w[words];
    T t[V];
    unsigned u[bytes < 4 ? 1 : bytes / 4];
  };
  __device__ __forceinline__ auto operator[](int v) const { return st_get_lane(*this, v); }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < words; ++i) w[i] = W();
  }
};
template <typename T, int V> ST_FN auto st_get_lane(const st_vec<T, V>& x, int v) { return st_get(x.t[v]); }
template <int V> ST_FN float st_get_lane(const st_vec<st_bf16, V>& x, int v) {
  if constexpr (V == 1) return st_get(x.t[0]);
  return st_bits_float(v & 1 ? x.u[v / 2] & 0xffff0000u : x.u[v / 2] << 16);
}
// Makes the compiler forget what it has computed from the words.
ST_FN void st_hold(unsigned& w) { asm("" : "+r"(w)); }
ST_FN void st_hold(uint2& w) { asm("" : "+r"(w.x), "+r"(w.y)); }
ST_FN void st_hold(uint4& w) { asm("" : "+r"(w.x), "+r"(w.y), "+r"(w.z), "+r"(w.w)); }
template <typename W> ST_FN void st_hold(W&) {}
// To widen again costs less than the registers that all results would hold.
template <typename T, int V, int K> ST_FN void st_hold(st_vec<T, V> (&x)[K]) {
#pragma unroll
  for (int k = 0; k < K; ++k) {
#pragma unroll
    for (int i = 0; i < x[k].words; ++i) st_hold(x[k].w[i]);
  }
}
template <int V, typename T> ST_FN void st_load(const T* p, st_vec<T, V>& x) {
  typedef typename st_vec<T, V>::W W;
#pragma unroll
  for (int i = 0; i < x.words; ++i) x.w[i] = st_load_word(reinterpret_cast<const W*>(p) + i);
}
// The values are ones that T has: a bf16 is the upper half of its f32.
template <typename T, int V, typename C> ST_FN void st_put_lanes(st_vec<T, V>& u, const C (&x)[V]) {
#pragma unroll
  for (int v = 0; v < V; ++v) st_put(&u.t[v], x[v]);
}
template <int V> ST_FN void st_put_lanes(st_vec<st_bf16, V>& u, const float (&x)[V]) {
  if constexpr (V == 1) st_put(&u.t[0], x[0]);
#pragma unroll
  for (int v = 0; v + 1 < V; v += 2) u.u[v / 2] = __byte_perm(st_float_bits(x[v]), st_float_bits(x[v + 1]), 0x7632);
}
template <int V, typename T, typename C> ST_FN void st_store(T* p, const C (&x)[V]) {
  typedef typename st_vec<T, V>::W W;
  st_vec<T, V> u;
  st_put_lanes(u, x);
#pragma unroll
  for (int i = 0; i < u.words; ++i) reinterpret_cast<W*>(p)[i] = u.w[i];
}
template <int V, typename T> ST_FN void st_store(T* p, const st_vec<T, V>& u) {
  typedef typename st_vec<T, V>::W W;
#pragma unroll
  for (int i = 0; i < u.words; ++i) reinterpret_cast<W*>(p)[i] = u.w[i];
}
// Words i, i + 1, ... of the stream, `i` a multiple of 4.
template <int V>
ST_FN void st_random_lanes(unsigned k0, unsigned k1, unsigned long long i, unsigned stream, unsigned step,
                           unsigned (&x)[V]) {
#pragma unroll
  for (int b = 0; b < V; b += 4) {
    unsigned w[4];
    st_philox(k0, k1, i + b, stream, step, w);
#pragma unroll
    for (int k = 0; k < 4; ++k) x[b + k] = w[k];
  }
}
ST_FN float st_shuffle(float x, int s) { return __shfl_xor_sync(0xffffffffu, x, s); }
ST_FN double st_shuffle(double x, int s) { return __shfl_xor_sync(0xffffffffu, x, s); }
ST_FN int st_shuffle(int x, int s) { return __shfl_xor_sync(0xffffffffu, x, s); }
ST_FN unsigned st_shuffle(unsigned x, int s) { return __shfl_xor_sync(0xffffffffu, x, s); }
ST_FN long long st_shuffle(long long x, int s) { return __shfl_xor_sync(0xffffffffu, x, s); }
ST_FN unsigned short st_shuffle(unsigned short x, int s) {
  return (unsigned short)__shfl_xor_sync(0xffffffffu, (unsigned)x, s);
}
ST_FN unsigned char st_shuffle(unsigned char x, int s) {
  return (unsigned char)__shfl_xor_sync(0xffffffffu, (unsigned)x, s);
}
template <typename T> ST_FN st_logsumexp_acc<T> st_shuffle(st_logsumexp_acc<T> x, int s) {
  return st_logsumexp_acc<T>(st_shuffle(x.largest, s), st_shuffle(x.sum, s));
}
ST_FN bool st_shuffle(bool x, int s) { return __shfl_xor_sync(0xffffffffu, (int)x, s) != 0; }
template <typename T> ST_FN T st_from_lane(T x, unsigned lane) { return __shfl_sync(0xffffffffu, x, lane); }

// Combines neighbours until one is left; one without a neighbour stays as it is.
template <typename Op, int N, typename T> ST_FN T st_fold_vector(T (&a)[N]) {
#pragma unroll
  for (int s = 1; s < N; s *= 2) {
#pragma unroll
    for (int k = 0; k + s < N; k += 2 * s) a[k] = Op::of(a[k], a[k + s]);
  }
  return a[0];
}
// Lane g * (P * V) + t * V + v of a row belongs to thread t of P; the tree pairs neighbours first, so v
// (combined into a[g] already, or in a[g][v]), then threads, then g. Every thread of the row gets the
// result. Rows of P > 32 threads meet in shared memory, `y` telling the block's rows apart.
template <typename Op, int P, int Y, int G, typename T> ST_FN T st_fold_lanes(T (&a)[G], int t, int y) {
#pragma unroll
  for (int s = 1; s < (P < 32 ? P : 32); s *= 2) {
#pragma unroll
    for (int g = 0; g < G; ++g) {
      const T other = st_shuffle(a[g], s);
      a[g] = Op::symmetric || !(t & s) ? Op::of(a[g], other) : Op::of(other, a[g]);
    }
  }
  if constexpr (P > 32) {
    constexpr int warps = P / 32;
    __shared__ T parts[Y][G][warps];
    __syncthreads();
    if (t % 32 == 0) {
#pragma unroll
      for (int g = 0; g < G; ++g) parts[y][g][t / 32] = a[g];
    }
    __syncthreads();
#pragma unroll
    for (int g = 0; g < G; ++g) {
      T w[warps];
#pragma unroll
      for (int k = 0; k < warps; ++k) w[k] = parts[y][g][k];
      a[g] = st_fold_vector<Op>(w);
    }
  }
  return st_fold_vector<Op>(a);
}
template <typename Op, int P, int Y, int G, int V, typename T>
ST_FN T st_fold_lanes(T (&a)[G][V], int t, int y) {
  T b[G];
#pragma unroll
  for (int g = 0; g < G; ++g) b[g] = st_fold_vector<Op>(a[g]);
  return st_fold_lanes<Op, P, Y>(b, t, y);
}

// A thread's place in shared memory for vector `e` of a row of E. Words of one number lie side by side, so
// that no two threads of a quarter warp meet in a bank.
template <typename T, int V, int E> struct st_place {
  typedef typename st_vec<T, V>::W W;
  W* p;
  __device__ __forceinline__ st_place(unsigned char* row, int e) : p(reinterpret_cast<W*>(row) + e) {}
  __device__ __forceinline__ st_vec<T, V> get() const {
    st_vec<T, V> x;
#pragma unroll
    for (int i = 0; i < x.words; ++i) x.w[i] = p[i * E];
    return x;
  }
  __device__ __forceinline__ void put(const st_vec<T, V>& x) const {
#pragma unroll
    for (int i = 0; i < x.words; ++i) p[i * E] = x.w[i];
  }
  __device__ __forceinline__ void clear() const {
    st_vec<T, V> x;
    x.clear();
    put(x);
  }
};
// Copies that take no registers and arrive later; st_wait<N> waits for those before the last N commits.
ST_FN void st_copy(uint4* to, const uint4* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
ST_FN void st_copy(uint2* to, const uint2* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
ST_FN void st_copy(unsigned* to, const unsigned* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
template <typename W> ST_FN void st_copy(W* to, const W* from) { *to = *from; }
template <int V, typename T, int E> ST_FN void st_load(const T* p, const st_place<T, V, E>& x) {
  typedef typename st_vec<T, V>::W W;
#pragma unroll
  for (int i = 0; i < st_vec<T, V>::words; ++i) st_copy(x.p + i * E, reinterpret_cast<const W*>(p) + i);
}
ST_FN void st_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> ST_FN void st_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

template <typename Op, int G, typename T> ST_FN void st_fold_vectors(T (&a)[G], T (&b)[G]) {
#pragma unroll
  for (int g = 0; g < G; ++g) b[g] = a[g];
}
template <typename Op, int G, int V, typename T> ST_FN void st_fold_vectors(T (&a)[G][V], T (&b)[G]) {
#pragma unroll
  for (int g = 0; g < G; ++g) b[g] = st_fold_vector<Op>(a[g]);
}
// N of st_fold_lanes at once, the results in a[n][0]. The P threads of row `y` meet at a barrier of their
// own, and only once: `turn` alternates from call to call between two places.
template <typename Op, int P, int Y, int N, int G, typename T> ST_FN void st_fold_rows(T (&a)[N][G], int t, int y, int& turn) {
#pragma unroll
  for (int s = 1; s < 32; s *= 2) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int g = 0; g < G; ++g) {
        const T other = st_shuffle(a[n][g], s);
        a[n][g] = Op::symmetric || !(t & s) ? Op::of(a[n][g], other) : Op::of(other, a[n][g]);
      }
    }
  }
  if constexpr (P > 32) {
    constexpr int warps = P / 32;
    __shared__ __align__(16) T parts[2][Y][N][G][warps];
    if (t % 32 == 0) {
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int g = 0; g < G; ++g) parts[turn][y][n][g][t / 32] = a[n][g];
      }
    }
    asm volatile("bar.sync %0, %1;" ::"r"(y + 1), "n"(P) : "memory");
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int g = 0; g < G; ++g) {
        T w[warps];
#pragma unroll
        for (int k = 0; k < warps; ++k) w[k] = parts[turn][y][n][g][k];
        a[n][g] = st_fold_vector<Op>(w);
      }
    }
    turn ^= 1;
  }
#pragma unroll
  for (int n = 0; n < N; ++n) st_fold_vector<Op>(a[n]);
}
// Combines what Y rows of threads hold, x[c][v] each for columns c * (P * V) + t * V + v, and stores the
// first `count` columns. They meet in `memory`, Y * K * P * V values.
template <typename Op, int P, int Y, int K, int V, typename T, typename S>
ST_FN void st_store_columns(const T (&x)[K][V], int t, int y, unsigned char* memory, S* out, int count) {
  constexpr int columns = K * P * V;
  st_vec<T, V>* const mine = reinterpret_cast<st_vec<T, V>*>(memory) + y * (K * P) + t;
  __syncthreads();
#pragma unroll
  for (int c = 0; c < K; ++c) {
    st_vec<T, V> w;
#pragma unroll
    for (int v = 0; v < V; ++v) w.t[v] = x[c][v];
    mine[c * P] = w;
  }
  __syncthreads();
  const T* const parts = reinterpret_cast<const T*>(memory);
#pragma unroll
  for (int first = 0; first < columns; first += P * Y) {
    const int j = first + y * P + t;
    if (j < count && j < columns) {
      T w[Y];
#pragma unroll
      for (int k = 0; k < Y; ++k) w[k] = parts[k * columns + j];
      st_put(out + j, st_fold_vector<Op>(w));
    }
  }
}

// The 8 column lanes of a block: thread row y of 8 holds x[V] for columns t * V + v of P * V, V <= 8.
// Thread y * P + t gets the result of column y * P + t, if there is one.
template <typename Op, int P, int V, typename T>
ST_FN T st_fold_columns(const T (&x)[V], int t, int y) {
  __shared__ __align__(16) T parts[8][P * V];
  __syncthreads();
#pragma unroll
  for (int v = 0; v < V; ++v) parts[y][t * V + v] = x[v];
  __syncthreads();
  const int column = y * P + t;
  T w[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) w[k] = parts[k][V == 8 || column < P * V ? column : 0];
  return st_fold_vector<Op>(w);
}

// For 8 * U thread rows, of which row y holds x[V] of element y / 8 of column lane y % 8: adds U elements
// to each lane, in their order. h is of the lanes y * P + t + q * threads of all 8 * P * V.
template <typename Op, int P, int V, int U, typename T, int Q>
ST_FN void st_add_columns(const T (&x)[V], T (&h)[Q], int t, int y) {
  __shared__ __align__(16) T parts[8 * U][P * V];
  __syncthreads();
#pragma unroll
  for (int v = 0; v < V; ++v) parts[y][t * V + v] = x[v];
  __syncthreads();
#pragma unroll
  for (int q = 0; q < Q; ++q) {
    const int item = q * (8 * U * P) + y * P + t, lane = item / (P * V), column = item % (P * V);
    if (U > V && lane >= 8) continue;
#pragma unroll
    for (int u = 0; u < U; ++u) h[q] = Op::of(h[q], parts[u * 8 + lane][column]);
  }
}
// Combines those lanes: thread y * P + t gets the result of column y * P + t, if there is one.
template <typename Op, int P, int V, int U, typename T, int Q>
ST_FN T st_fold_added_columns(const T (&h)[Q], int t, int y) {
  __shared__ T parts[8][P * V];
  __syncthreads();
#pragma unroll
  for (int q = 0; q < Q; ++q) {
    const int item = q * (8 * U * P) + y * P + t;
    if (U <= V || item < 8 * P * V) parts[item / (P * V)][item % (P * V)] = h[q];
  }
  __syncthreads();
  const int column = y * P + t;
  T w[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) w[k] = parts[k][column < P * V ? column : 0];
  return st_fold_vector<Op>(w);
}
)";

}  // namespace

const std::string& Prelude(Language language) {
  static const std::string kCpp = std::string(kCppHead) + kCppHalf + kLimits + kShared + kLogSumExp + kCppTail;
  static const std::string kCuda = std::string(kCudaHead) + kLimits + kShared + kLogSumExp + kCudaTail;
  return language == Language::kCpp ? kCpp : kCuda;
}

}  // namespace stator
