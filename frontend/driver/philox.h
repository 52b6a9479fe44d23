// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): random words
// as a function of a counter and a key, for the host's own draws (batches, sampling).
#pragma once

#include <array>
#include <cstdint>

namespace stator {

inline std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                          std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// 64 random bits for (seed, a, b): two 64-bit coordinates.
inline uint64_t RandomBits(uint64_t seed, uint64_t a, uint64_t b) {
  const auto r = Philox4x32({static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32),
                             static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32)},
                            {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return uint64_t{r[1]} << 32 | r[0];
}

}  // namespace stator
