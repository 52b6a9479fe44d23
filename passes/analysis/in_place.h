// When a region may write a result over storage that it reads.
#pragma once

#include "ir/graph.h"

#include <vector>

namespace stator {

// Whether the region of `nodes` stores its results at an element after everything it reads there.
// So it is with regions computed an element at a time (elementwise ops, index maps, random bits),
// with one contraction or segment sum and one elementwise op on its result (an addend), and with
// rows: their results of full size are stored in the last sweep, by the thread that read that
// element in the sweeps before; a single element of a row that they pick is read before the first
// fold.
bool StoresAfterReads(const std::vector<Node*>& nodes);

// Whether such a region, of `nodes`, may store its result `out` where `old` (a value or state that
// owns its storage) lies. Holds when both have as many elements of one width, `out` depends on
// `old`, and everything in the region that depends on `old` is elementwise and reads it at its own
// index: then each element is read before it is written, whatever the loop order. A row's folds may
// read `old` too; values that live once a row are not stored over each other.
//
// `old` must not be needed after the region; that is for the caller to know.
bool CanOverwrite(Value old, Value out, const std::vector<Node*>& nodes);

}  // namespace stator
