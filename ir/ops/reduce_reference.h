// The reference fold of reduce ops, by ir/reduce_tree.h.
#pragma once

#include "ir/op_def.h"
#include "ir/tensor.h"

namespace stator {

Tensor ReduceReference(const Tensor& x, const Dims& axes, ReduceKind kind);

}  // namespace stator
