// When a region may write a result over storage that it reads.
#pragma once

#include "ir/graph.h"

#include <vector>

namespace stator {

// Whether the region of `nodes` is computed an element at a time: elementwise ops, index maps and
// random bits, or one contraction with one elementwise op on its result (an addend).
bool IsPointwise(const std::vector<Node*>& nodes);

// Whether a pointwise region may store its result `out` where `old` (a value or state that owns its
// storage) lies. Holds when both have as many elements of one width, `out` depends on `old`, and
// everything in the region that depends on `old` is elementwise in out's shape and reads it at its
// own index: then each element is read before it is written, whatever the loop order.
//
// `old` must not be needed after the region; that is for the caller to know.
bool CanOverwrite(Value old, Value out);

}  // namespace stator
