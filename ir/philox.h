// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): the one
// generator of every random stream. The preludes of the emitters carry the same function.
#pragma once

#include <array>
#include <cstdint>

namespace stator {

using PhiloxBlock = std::array<uint32_t, 4>;

// Inlined and unrolled, so that a loop over independent blocks is vectorized.
[[gnu::always_inline]] constexpr PhiloxBlock Philox(PhiloxBlock counter,
                                                    std::array<uint32_t, 2> key) {
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// The block that holds elements 4 * block .. 4 * block + 3 of stream `stream` at step `step`.
constexpr PhiloxBlock RandomBlock(uint32_t seed0, uint32_t seed1, int64_t step, int64_t stream,
                                  int64_t block) {
  return Philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                 static_cast<uint32_t>(stream), static_cast<uint32_t>(step)},
                {seed0, seed1});
}

}  // namespace stator
