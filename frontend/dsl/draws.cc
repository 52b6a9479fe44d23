#include "frontend/dsl/draws.h"

#include <array>
#include <bit>
#include <cmath>
#include <numbers>

// A function with a wider instruction set takes in those without one only if they are inlined.
#define STATOR_INLINE [[gnu::always_inline]] inline

namespace stator::dsl {
namespace {

constexpr int kLanes = 64;  // blocks that are drawn at once
template <typename T>
using Lanes = std::array<std::array<T, kLanes>, 4>;  // by word of the block

constexpr uint64_t kTwo52 = 0x4330000000000000;  // the bits of 2^52

// Exact below 2^52; vector instructions before AVX-512 convert no 64-bit integers.
STATOR_INLINE double ToDouble(uint64_t x) { return std::bit_cast<double>(x | kTwo52) - 0x1p52; }

// log(x * 2^-32) for x in [1/2, 2^32), within 1 ulp: the method and the polynomial of fdlibm's
// e_log.c. x = 2^k * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), and
// log(1 + f) = f - f^2/2 + s * (f^2/2 + R(s^2)) with s = f / (2 + f).
STATOR_INLINE double LogOfUnit(double x) {
  constexpr uint64_t kRootHalf = 0x3fe6a09e00000000, kOne = 0x3ff0000000000000;
  constexpr uint64_t kMantissa = 0x000fffffffffffff;
  const uint64_t bits = std::bit_cast<uint64_t>(x) + (kOne - kRootHalf);
  const double k = std::bit_cast<double>((bits >> 52) | kTwo52) - (0x1p52 + 1023 + 32);
  const double f = std::bit_cast<double>((bits & kMantissa) + kRootHalf) - 1;
  const double s = f / (2 + f), z = s * s, w = z * z;
  const double odd = z * (6.666666666666735130e-01 +
                          w * (2.857142874366239149e-01 +
                               w * (1.818357216161805012e-01 + w * 1.479819860510658591e-01)));
  const double even = w * (3.999999999940941908e-01 +
                           w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  const double half = 0.5 * f * f;
  constexpr double kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10;
  return k * kLn2High - ((half - (s * (half + (even + odd)) + k * kLn2Low)) - f);
}

struct SineCosine {
  double sine, cosine;
};

// Of the angle 2 pi (word + 1/2) 2^-32, rounded to f64, within 2 ulp of the angle's: the method and
// polynomials of fdlibm's k_sin.c and k_cos.c on [-pi/4, pi/4].
STATOR_INLINE SineCosine SineCosineOf(uint32_t word) {
  const double angle = 2 * std::numbers::pi * ((ToDouble(word) + 0.5) * 0x1p-32);
  const uint64_t quarter = (uint64_t{word} + (1u << 29)) >> 30;  // the nearest quarter turn, 0..4
  const double n = ToDouble(quarter);
  constexpr double kHalfPiHigh = 1.57079632673412561417e+00;  // 33 bits: n * kHalfPiHigh is exact
  constexpr double kHalfPiLow = 6.07710050650619224932e-11;
  const double x = (angle - n * kHalfPiHigh) - n * kHalfPiLow;
  const double z = x * x, w = z * z;

  const double s = 8.33333333332248946124e-03 +
                   z * (-1.98412698298579493134e-04 + z * 2.75573137070700676789e-06) +
                   z * w * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10);
  const double sine = x + z * x * (-1.66666666666666324348e-01 + z * s);
  const double c = z * (4.16666666666666019037e-02 +
                        z * (-1.38888888888741095749e-03 + z * 2.48015872894767294178e-05)) +
                   w * w *
                       (-2.75573143513906633035e-07 +
                        z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11));
  const double half = 0.5 * z, one = 1 - half;
  const double cosine = one + (((1 - one) - half) + z * c);

  // Odd quarters swap the two; signs by quarter.
  const uint64_t sine_bits = std::bit_cast<uint64_t>(sine);
  const uint64_t cosine_bits = std::bit_cast<uint64_t>(cosine);
  const uint64_t swap = (sine_bits ^ cosine_bits) & (0 - (quarter & 1));
  return {std::bit_cast<double>(sine_bits ^ swap ^ ((quarter & 2) << 62)),
          std::bit_cast<double>(cosine_bits ^ swap ^ (((quarter + 1) & 2) << 62))};
}

struct Pair {
  double first, second;
};

// Two standard normals by Box and Muller's transform. A word stands for (word + 1/2) 2^-32, which
// is in (0, 1) and symmetric about 1/2.
STATOR_INLINE Pair Normals(uint32_t a, uint32_t b) {
  const double radius = std::sqrt(-2 * LogOfUnit(ToDouble(a) + 0.5));
  const SineCosine turn = SineCosineOf(b);
  return {radius * turn.cosine, radius * turn.sine};
}

STATOR_INLINE double Uniform(uint32_t word) { return 2 * ((ToDouble(word) + 0.5) * 0x1p-32) - 1; }

// The first normal of the element's blocks that is within two standard deviations.
double TruncatedNormal(const Stream& stream, uint64_t element) {
  for (uint32_t attempt = 0;; ++attempt) {
    const PhiloxBlock words = stream.At(element, attempt);
    for (int i = 0; i < 4; i += 2) {
      const Pair z = Normals(words[i], words[i + 1]);
      if (std::abs(z.first) <= 2) return z.first;
      if (std::abs(z.second) <= 2) return z.second;
    }
  }
}

STATOR_INLINE Lanes<uint32_t> Words(const Stream& stream, uint64_t block) {
  Lanes<uint32_t> words;
  for (int i = 0; i < kLanes; ++i) {
    const PhiloxBlock w = stream.At(block + static_cast<uint64_t>(i), 0);
    for (int j = 0; j < 4; ++j) words[j][i] = w[j];
  }
  return words;
}

STATOR_INLINE void Interleave(const Lanes<float>& lanes, float* out) {
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < 4; ++j) out[4 * i + j] = lanes[j][i];
  }
}

// Of an element, the first pair of its block serves but for one in 500.
STATOR_INLINE void DrawTruncated(double scale, const Stream& stream, uint64_t first, float* out) {
  const Lanes<uint32_t> words = Words(stream, first);
  std::array<double, kLanes> z;
  for (int i = 0; i < kLanes; ++i) {
    const Pair pair = Normals(words[0][i], words[1][i]);
    z[i] = std::abs(pair.first) <= 2 ? pair.first : pair.second;
  }
  for (int i = 0; i < kLanes; ++i) out[i] = static_cast<float>(scale * z[i]);
  for (int i = 0; i < kLanes; ++i) {
    if (std::abs(z[i]) <= 2) continue;
    out[i] = static_cast<float>(scale * TruncatedNormal(stream, first + static_cast<uint64_t>(i)));
  }
}

STATOR_INLINE void Draw(Law law, double scale, const Stream& stream, int64_t batch, float* out) {
  static_assert(kDrawBatch == 4 * kLanes);
  const uint64_t first = static_cast<uint64_t>(batch) * kDrawBatch;
  if (law == Law::kTruncatedNormal) {
    for (int i = 0; i < 4; ++i) {
      DrawTruncated(scale, stream, first + static_cast<uint64_t>(i * kLanes), out + i * kLanes);
    }
    return;
  }
  const Lanes<uint32_t> words = Words(stream, first / 4);
  Lanes<float> z;
  if (law == Law::kUniform) {
    for (int j = 0; j < 4; ++j) {
      for (int i = 0; i < kLanes; ++i) z[j][i] = static_cast<float>(scale * Uniform(words[j][i]));
    }
  } else {
    for (int j = 0; j < 4; j += 2) {
      for (int i = 0; i < kLanes; ++i) {
        const Pair pair = Normals(words[j][i], words[j + 1][i]);
        z[j][i] = static_cast<float>(scale * pair.first);
        z[j + 1][i] = static_cast<float>(scale * pair.second);
      }
    }
  }
  Interleave(z, out);
}

void DrawAnywhere(Law law, double scale, const Stream& stream, int64_t batch, float* out) {
  Draw(law, scale, stream, batch, out);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void DrawAvx2(Law law, double scale, const Stream& stream, int64_t batch,
                                      float* out) {
  Draw(law, scale, stream, batch, out);
}

[[gnu::target("avx512f,avx512dq,avx512vl")]] void DrawAvx512(Law law, double scale,
                                                             const Stream& stream, int64_t batch,
                                                             float* out) {
  Draw(law, scale, stream, batch, out);
}
#endif

}  // namespace

const std::vector<DrawBatch*>& DrawBatches() {
  static const std::vector<DrawBatch*> batches = [] {
    std::vector<DrawBatch*> found = {&DrawAnywhere};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) found.push_back(&DrawAvx2);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
      found.push_back(&DrawAvx512);
    }
#endif
    return found;
  }();
  return batches;
}

}  // namespace stator::dsl
