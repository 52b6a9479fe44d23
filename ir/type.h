// A value's type: dtype and static shape. Strides, packing and views are facts, not types.
#pragma once

#include "ir/dtype.h"

#include <cstdint>
#include <string>
#include <vector>

namespace stator {

using Dims = std::vector<int64_t>;

struct Type {
  DType dtype = DType::kF32;
  Dims shape;

  int rank() const { return static_cast<int>(shape.size()); }
  int64_t dim(int axis) const { return shape[axis < 0 ? axis + rank() : axis]; }
  int64_t NumElements() const;
  int64_t Bytes() const { return NumElements() * ByteWidth(dtype); }
  std::string ToString() const;  // "f32[4,8]"

  bool operator==(const Type&) const = default;
};

int64_t NumElements(const Dims& shape);

// Row-major strides in elements of a dense tensor.
Dims DenseStrides(const Dims& shape);

// `axis` counted from the front; throws `Error` naming `what` when it is out of range.
int NormalizeAxis(int64_t axis, int rank, const std::string& what);

// The shape that `a` and `b` broadcast to by NumPy's rule; throws `Error` naming `what`.
Dims BroadcastShapes(const Dims& a, const Dims& b, const std::string& what);

}  // namespace stator
