// Random elements of a parameter, a batch at a time: the arithmetic under initializer.h. Logarithm,
// sine and cosine are own code, without calls and branches, so that compilers vectorize it and so
// that every machine draws the same bits. Whatever the width of the vectors, each element passes
// through the same operations of IEEE arithmetic.
#pragma once

#include "ir/philox.h"

#include <cstdint>
#include <vector>

namespace stator::dsl {

enum class Law {
  kUniform,          // in [-1, 1]
  kNormal,           // standard
  kTruncatedNormal,  // standard, values beyond two drawn again
};

// The random stream of one parameter.
struct Stream {
  uint64_t seed, path;

  [[gnu::always_inline]] PhiloxBlock At(uint64_t block, uint32_t attempt) const {
    // The block index fits 48 bits; its upper part shares a word with the attempt.
    return Philox(
        {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32) ^ (attempt << 16),
         static_cast<uint32_t>(path), static_cast<uint32_t>(path >> 32)},
        {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  }
};

constexpr int64_t kDrawBatch = 256;

// out[i] = scale * element kDrawBatch * batch + i, for i below kDrawBatch. Element k of a uniform
// or normal law is word k mod 4 of block k / 4, normals by Box and Muller's transform of pairs of
// words; a truncated one has block k to itself. In f64: against exact mathematics the relative
// error of a normal is about 1e-15, so that the f32 is the nearest one but for a few in 1e8.
using DrawFunction = void(Law law, double scale, const Stream& stream, int64_t batch, float* out);

// Those that this machine can run, the fastest last. All give the same bits.
const std::vector<DrawFunction*>& DrawFunctions();

}  // namespace stator::dsl
