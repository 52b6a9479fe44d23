// How closely two computations of one node must agree, and whether they do.
#pragma once

#include "ir/graph.h"
#include "ir/tensor.h"

#include <string>

namespace stator {

// Whether every kernel of the node gives the interpreter's bits: arithmetic that rounds once, folds
// along the fixed tree, whatever only moves. The others call functions, libraries, or are
// composites, or a library call computes them on its way out.
bool IsExact(const Node& node);

// For the others: the largest difference allowed, as a part of the largest element. It goes by the
// narrowest float that the node reads or writes; a product of matrices or an attention may lose a
// few more bits by the order of its sums.
double ToleranceOf(const Node& node);
double ToleranceOf(DType dtype);

// How two tensors of one type differ. NaN equals NaN, and 0 equals -0.
struct Difference {
  int64_t count = 0;         // elements that differ by more than is allowed
  int64_t first = -1;        // such an element
  double got = 0, want = 0;  // there
  double largest =
      0;  // |got - want| over the largest |want|, of all elements; inf where one is finite
  std::string ToString()
      const;  // "3 of 64 elements differ; element 5 is 0.25, not 0.5; largest ..."
  int64_t size = 0;
};
// `tolerance` as ToleranceOf gives it; 0 asks for equality.
Difference Compare(const Tensor& got, const Tensor& want, double tolerance);

}  // namespace stator
