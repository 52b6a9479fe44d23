// The reference fold of reduce ops, by ir/reduce_tree.h.
#pragma once

#include "ir/op_def.h"
#include "ir/tensor.h"

#include <string>
#include <vector>

namespace stator {

// A run of adjacent axes, seen as [outer, n, inner].
struct ReducedRun {
  int64_t outer = 1, n = 1, inner = 1;
};
// How `axes` of `shape` are reduced, one run after another, innermost first: each as it stands in
// what those before it leave. Axes of size 1 join whichever run they touch.
std::vector<ReducedRun> ReducedRuns(Dims shape, const Dims& axes);

Tensor ReduceReference(const Tensor& x, const Dims& axes, ReduceKind kind);

// [n, inner] to [1, inner] by the column rule, also where inner is 1.
Tensor ColumnReference(const Tensor& x, ReduceKind kind);

// [outer, m, inner] -> [outer, 1, inner] by one level of the tree. `x` has the accumulator's dtype.
Tensor FoldOneChunk(const Tensor& x, ReduceKind kind);

// "sum", "prod", "max", "min", "any", "all", "logsumexp". Throws `Error` for other names.
ReduceKind ParseReduceKind(const std::string& name);

// The result of folding nothing.
double ReduceIdentity(ReduceKind kind, DType dtype);

}  // namespace stator
