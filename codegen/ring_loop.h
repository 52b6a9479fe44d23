// The loop over rows that come to shared memory ahead, in a ring of places (emit_ring.cc).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace stator {

inline constexpr int64_t kRingRows = 2;  // a row of threads' rows under way

struct RingParts {
  std::string head;   // defines r in terms of q
  std::string early;  // positions and scalars that the loads of a row need, a definition a line
  std::string row_values;                  // what the row alone decides (statistics), likewise
  std::string loads, alike_loads;          // of a row's vectors; of those that all rows read alike
  std::string sweeps;                      // what is done with a row
  int64_t row_bytes = 0, alike_bytes = 0;  // of shared memory
};

struct RingText {
  std::string before, row;
};
// What goes before the loop over a row of threads' rows and what the q-th row does. What depends on
// the row alone is computed by a lane a row, `batch` rows at a time, from what the batch before has
// loaded. Nothing where a line defines no variable.
std::optional<RingText> RingLoop(const RingParts& parts, int64_t batch);

}  // namespace stator
