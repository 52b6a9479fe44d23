// The host's own random draws, as functions of a seed and where they are used. Apart from the
// device's streams, whose keys lack the purpose.
#pragma once

#include "ir/philox.h"

#include <cstdint>

namespace stator {

enum class Purpose : uint32_t { kBatches = 0x62617463, kSampling = 0x73616d70 };

// 64 random bits for two coordinates.
inline uint64_t RandomBits(uint64_t seed, Purpose purpose, uint64_t a, uint64_t b) {
  const PhiloxBlock r = Philox({static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32),
                                static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32)},
                               {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32) ^
                                                                 static_cast<uint32_t>(purpose)});
  return uint64_t{r[1]} << 32 | r[0];
}

}  // namespace stator
