// Expansion of composites and autodiff of single ops, shared by passes and the interpreter.
#pragma once

#include "ir/builder.h"

namespace stator {

// The values of `node`'s results in simpler ops, built at `b`'s insertion point. Ops that compute
// in f32 get narrow float operands cast up, and their results are cast back to `node`'s types.
Values ExpandNode(Builder& b, const Node& node);

}  // namespace stator
