// Checks everything a well-formed graph promises.
#pragma once

#include "ir/graph.h"

namespace stator {

// Throws `Error` naming the node, its scope path and what is wrong: operand types, inferred result
// types, order of definition and use, next states.
void VerifyGraph(const Graph& graph);

}  // namespace stator
