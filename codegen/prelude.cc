#include "codegen/prelude.h"

#include "codegen/prelude_text.h"

namespace stator {
namespace {

// What both languages share. ST_FN marks a function for the device.
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

// Halves of an f32 (ir/dtype.h): what rounds to the high one, the low one, and both put together. From half
// a step on the lowest bit is set: what was halfway rounds up, and whatever else, as it did.
ST_FN float st_untie(float x) {
  const unsigned u = st_float_bits(x);
  return st_bits_float(u | (u >> 15 & 1u));
}
ST_FN unsigned short st_low_half(float x) { return x != x ? 0 : (unsigned short)st_float_bits(x); }
ST_FN float st_join_halves(float high, unsigned short low) {
  return st_bits_float(st_float_bits(high) + low - ((low & 0x8000u) << 1));
}

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

}  // namespace

const std::string& Prelude(Language language) {
  static const std::string kCpp =
      std::string(kCppHead) + kCppHalf + kLimits + kShared + kLogSumExp + kCppTail;
  static const std::string kCuda =
      std::string(kCudaHead) + kLimits + kShared + kLogSumExp + kCudaTail;
  return language == Language::kCpp ? kCpp : kCuda;
}

}  // namespace stator
