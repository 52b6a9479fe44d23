// Functions on tensors. Shapes broadcast by NumPy's rule; dtypes never promote: a mismatch is an
// error that names the scope and both types, and Cast is the answer. A number beside a tensor takes
// its dtype. Reductions drop the reduced axes unless `keep` is set. Negative axes count from the
// end.
#pragma once

#include "frontend/dsl/model.h"

namespace stator::dsl {

Tensor operator+(const Operand& a, const Operand& b);
Tensor operator-(const Operand& a, const Operand& b);
Tensor operator*(const Operand& a, const Operand& b);
Tensor operator/(const Operand& a, const Operand& b);
Tensor operator-(const Operand& x);
// Elementwise; the results are bool tensors. Equality and logic are functions, so that `if (a ==
// b)` and `if (!a)` do not compile.
Tensor operator<(const Operand& a, const Operand& b);
Tensor operator<=(const Operand& a, const Operand& b);
Tensor operator>(const Operand& a, const Operand& b);
Tensor operator>=(const Operand& a, const Operand& b);
Tensor Equal(const Operand& a, const Operand& b);
Tensor NotEqual(const Operand& a, const Operand& b);
Tensor And(const Operand& a, const Operand& b);
Tensor Or(const Operand& a, const Operand& b);
Tensor Not(const Tensor& x, Location loc = Location::current());

Tensor Pow(const Operand& a, const Operand& b);
Tensor Maximum(const Operand& a, const Operand& b);
Tensor Minimum(const Operand& a, const Operand& b);
Tensor Fma(const Operand& a, const Operand& b, const Operand& c);  // a*b + c, rounded once
Tensor Select(const Tensor& condition, const Operand& a, const Operand& b);
Tensor Clamp(const Tensor& x, double min, double max, Location loc = Location::current());

Tensor Abs(const Tensor& x, Location loc = Location::current());
Tensor Sign(const Tensor& x, Location loc = Location::current());
Tensor Exp(const Tensor& x, Location loc = Location::current());
Tensor Log(const Tensor& x, Location loc = Location::current());
Tensor Log1p(const Tensor& x, Location loc = Location::current());
Tensor Sqrt(const Tensor& x, Location loc = Location::current());
Tensor Rsqrt(const Tensor& x, Location loc = Location::current());
Tensor Square(const Tensor& x, Location loc = Location::current());
Tensor Sin(const Tensor& x, Location loc = Location::current());
Tensor Cos(const Tensor& x, Location loc = Location::current());
Tensor Tanh(const Tensor& x, Location loc = Location::current());
Tensor Erf(const Tensor& x, Location loc = Location::current());
Tensor Floor(const Tensor& x, Location loc = Location::current());
Tensor IsFinite(const Tensor& x, Location loc = Location::current());
Tensor Cast(const Tensor& x, DType to, Location loc = Location::current());

// Activations.
Tensor Sigmoid(const Tensor& x, Location loc = Location::current());
Tensor Relu(const Tensor& x, Location loc = Location::current());
Tensor Silu(const Tensor& x, Location loc = Location::current());      // x * sigmoid(x)
Tensor Softplus(const Tensor& x, Location loc = Location::current());  // log(1 + exp(x))
Tensor Gelu(const Tensor& x, Location loc = Location::current());      // exact, by erf
Tensor GeluTanh(const Tensor& x, Location loc = Location::current());  // GPT-2's approximation

Tensor Sum(const Tensor& x, const Axes& axes = {}, bool keep = false,
           Location loc = Location::current());
Tensor Mean(const Tensor& x, const Axes& axes = {}, bool keep = false,
            Location loc = Location::current());
Tensor Max(const Tensor& x, const Axes& axes = {}, bool keep = false,
           Location loc = Location::current());
Tensor Min(const Tensor& x, const Axes& axes = {}, bool keep = false,
           Location loc = Location::current());
Tensor Prod(const Tensor& x, const Axes& axes = {}, bool keep = false,
            Location loc = Location::current());
Tensor Any(const Tensor& x, const Axes& axes = {}, bool keep = false,
           Location loc = Location::current());
Tensor All(const Tensor& x, const Axes& axes = {}, bool keep = false,
           Location loc = Location::current());
Tensor LogSumExp(const Tensor& x, const Axes& axes = {}, bool keep = false,
                 Location loc = Location::current());
// Divides by n - correction.
Tensor Variance(const Tensor& x, const Axes& axes = {}, bool keep = false, int64_t correction = 0,
                Location loc = Location::current());
Tensor ArgMax(const Tensor& x, int64_t axis = -1, bool keep = false,
              Location loc = Location::current());
Tensor CumSum(const Tensor& x, int64_t axis = -1, bool reverse = false, bool exclusive = false,
              Location loc = Location::current());
Tensor Softmax(const Tensor& x, int64_t axis = -1, Location loc = Location::current());
Tensor LogSoftmax(const Tensor& x, int64_t axis = -1, Location loc = Location::current());

Tensor Broadcast(const Tensor& x, const Dims& shape, Location loc = Location::current());
Tensor Reshape(const Tensor& x, const Dims& shape, Location loc = Location::current());  // one -1
Tensor Transpose(const Tensor& x, const Dims& permutation, Location loc = Location::current());
Tensor Slice(const Tensor& x, int64_t axis, int64_t start, int64_t limit, int64_t step = 1,
             Location loc = Location::current());
Tensor Concat(const Tensors& parts, int64_t axis, Location loc = Location::current());
// `low` elements before and `high` after, on every axis.
Tensor Pad(const Tensor& x, const Dims& low, const Dims& high, double value = 0,
           Location loc = Location::current());

// NumPy's matmul: [.., M, K] x [.., K, N] with broadcast leading axes. `transpose_b` takes b as
// [.., N, K].
Tensor MatMul(const Tensor& a, const Tensor& b, bool transpose_a = false, bool transpose_b = false,
              Location loc = Location::current());
// The slices of `data` along `axis` at integer `indices` (NumPy's take).
Tensor Gather(const Tensor& data, const Tensor& indices, int64_t axis = 0,
              Location loc = Location::current());
// One element of each row: NumPy's take_along_axis.
Tensor TakeAlong(const Tensor& data, const Tensor& indices, int64_t axis = -1,
                 Location loc = Location::current());
// [rows, ...]: row r is the sum of the updates whose index is r.
Tensor SegmentSum(const Tensor& updates, const Tensor& indices, int64_t rows,
                  Location loc = Location::current());

struct Sorted {
  Tensor values, indices;
};
Sorted Sort(const Tensor& x, int64_t axis = -1, bool descending = false,
            Location loc = Location::current());
Sorted TopK(const Tensor& x, int64_t k, int64_t axis = -1, Location loc = Location::current());

// Any op of the registry by name, a user's own included. Operands must fit the op exactly; empty
// tensors stand for absent optional operands.
Tensors Op(const std::string& name, const Tensors& operands, const AttrMap& attrs = {},
           Location loc = Location::current());

}  // namespace stator::dsl
