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

// The sum of a power series, its last coefficient first.
template <typename... Rest>
STATOR_INLINE double Series(double z, double last, Rest... rest) {
  double sum = last;
  ((sum = sum * z + rest), ...);
  return sum;
}

// log(x 2^-32) for x in [1/2, 2^32), within 2 ulp. x = 2^k (1 + f), 1 + f in [sqrt(1/2), sqrt(2)),
// and log(1 + f) = 2 artanh(s) with s = f / (2 + f), whose series leaves out less than 2^-60.
STATOR_INLINE double LogOfUnit(double x) {
  constexpr uint64_t kOne = std::bit_cast<uint64_t>(1.0);
  constexpr uint64_t kRootHalf = std::bit_cast<uint64_t>(std::numbers::sqrt2 / 2);
  constexpr uint64_t kMantissa = (uint64_t{1} << 52) - 1;
  const uint64_t bits = std::bit_cast<uint64_t>(x) + (kOne - kRootHalf);
  const double k = ToDouble(bits >> 52) - (1023 + 32);
  const double f = std::bit_cast<double>((bits & kMantissa) + kRootHalf) - 1;
  const double s = f / (2 + f), z = s * s;
  const double rest = Series(z, 1. / 21, 1. / 19, 1. / 17, 1. / 15, 1. / 13, 1. / 11, 1. / 9,
                             1. / 7, 1. / 5, 1. / 3);
  return k * std::numbers::ln2 + (2 * s + 2 * s * z * rest);
}

struct SineCosine {
  double sine, cosine;
};

// Of (word + 1/2) 2^-32 turns, within 2 ulp: the angle beyond the nearest quarter turn is at most
// pi/4, where the series leave out less than 2^-53.
STATOR_INLINE SineCosine SineCosineOf(uint32_t word) {
  const uint64_t quarter = (uint64_t{word} + (1u << 29)) >> 30;             // 0..4
  const double beyond = ToDouble(word) + 0.5 - 0x1p30 * ToDouble(quarter);  // exact
  const double x = beyond * (2 * std::numbers::pi * 0x1p-32), z = x * x;
  const double sine = x + x * z *
                              Series(z, -1. / 1307674368000, 1. / 6227020800, -1. / 39916800,
                                     1. / 362880, -1. / 5040, 1. / 120, -1. / 6);
  const double cosine = 1 + z * Series(z, 1. / 20922789888000, -1. / 87178291200, 1. / 479001600,
                                       -1. / 3628800, 1. / 40320, -1. / 720, 1. / 24, -1. / 2);
  const uint64_t sine_bits = std::bit_cast<uint64_t>(sine);
  const uint64_t cosine_bits = std::bit_cast<uint64_t>(cosine);

  // Odd quarters swap the two; signs by quarter.
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

const std::vector<DrawFunction*>& DrawFunctions() {
  static const std::vector<DrawFunction*> functions = [] {
    std::vector<DrawFunction*> found = {&DrawAnywhere};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) found.push_back(&DrawAvx2);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
      found.push_back(&DrawAvx512);
    }
#endif
    return found;
  }();
  return functions;
}

}  // namespace stator::dsl
