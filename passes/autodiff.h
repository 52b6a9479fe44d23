// Reverse-mode differentiation as a function on graphs; the `autodiff` pass stands on it.
#pragma once

#include "ir/graph.h"

namespace stator {

// d(loss)/d(wrt[i]) scaled by `seed`, which has the type of `loss`; null seed means ones. Appends
// the nodes that compute them to the graph, in the scope of their forward nodes and with the fact
// phase="backward". Null where `loss` does not depend on `wrt[i]` through floats. Contributions of
// repeated uses are summed in the reverse order of the uses' nodes. Throws `Error` for an op on the
// way that has no gradient.
Values Gradients(Graph& graph, Value loss, const Values& wrt, Value seed = {});

}  // namespace stator
