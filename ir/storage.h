// The planner's facts, read: where a materialized value is stored.
#pragma once

#include "ir/graph.h"
#include "ir/space.h"

#include <cstdint>

namespace stator {

struct Storage {
  Space space = Space::kNone;
  // kArena: bytes. kState: the position in Graph::states() of the state whose storage it is, which
  // the value overwrites in place.
  int64_t offset = 0;
};

// Of a value that is no view (see ResolveView). kNone before `plan-memory`, and for values that
// stay inside their region, inputs, states and constants.
Storage StorageOf(Value v);

// Where the scratch of `node` (facts scratch, scratch_at) begins in the arena, -1 when it has none.
int64_t ScratchOffset(const Node& node);

}  // namespace stator
