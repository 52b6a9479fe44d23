// Biases of matrix products: which of them the product's own call may add.
#pragma once

#include "ir/graph.h"

namespace stator {

// The one use of `v` by a node; {null, 0} when there are several, none, or one outside the graph.
Use OnlyUseOf(Value v);

// Whether library calls, one at least, and nothing else read `v`, through movement: nothing that
// could be a fused kernel, which would add a bias while reading, for free. With `views_only`,
// movement that computes is a kernel.
bool OnlyLibrariesRead(Value v, bool views_only);

}  // namespace stator
