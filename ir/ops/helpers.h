// What op records share: reference loops, error messages, gradient building blocks.
#pragma once

#include "ir/base/error.h"
#include "ir/builder.h"
#include "ir/op_def.h"
#include "ir/tensor.h"

#include <span>

namespace stator {

using Reference = decltype(OpDef::reference);
using Gradient = decltype(OpDef::grad);
using Operands = std::span<const Tensor* const>;
using Results = std::span<Tensor>;

// --- inference ---

[[noreturn]] inline void BadOperand(const OpView& op, std::string_view what, const Type& a) {
  Fail(ErrorCode::kInvalidArgument, op.Where(), ": ", what, ", got ", a.ToString());
}
[[noreturn]] inline void BadOperands(const OpView& op, std::string_view what, const Type& a,
                                     const Type& b) {
  Fail(ErrorCode::kInvalidArgument, op.Where(), ": ", what, ": ", a.ToString(), " vs ",
       b.ToString());
}

// The dtype of statistics (means, log-sum-exps) and of losses: f32, f64 for f64 operands.
inline DType StatType(DType d) { return d == DType::kF64 ? DType::kF64 : DType::kF32; }

// `axes` with each axis counted from the front; throws `Error` for a repeated one.
std::vector<bool> AxisMask(const Dims& axes, int rank, const std::string& what);

// --- building ---

inline Value Wide(Builder& b, Value v) { return b.Cast(v, ComputeType(v.dtype())); }

// Unlike Builder's reductions, empty `axes` reduce nothing.
inline Value ReduceOver(Builder& b, const std::string& op, Value x, const Dims& axes) {
  return axes.empty() ? x : b.Create1(op, {x}, {{"axes", axes}});
}

// log(sum(exp(x))) over `axes` in primitives; -inf where every x is -inf.
Value LogSumExp(Builder& b, Value x, const Dims& axes);

// Zeros of type `data` with each dy[..i..] added at [..indices[..i..]..] along `axis`: the gradient
// of take_along. Equal positions are added in the order of `dy`.
Value ScatterAlong(Builder& b, Value dy, Value indices, const Type& data, int axis);

// Runs `grad` on operands and cotangents cast to their compute types, and casts what it returns to
// the operands' dtypes: the gradient of an op that computes in f32. Results read through op.out()
// keep their dtypes; `grad` widens them.
Gradient InF32(Gradient grad);

// --- reference and cost ---

// out[k] = f(in[0][k], ...): `f` is called on doubles for floats, on int64_t for other dtypes, and
// its value rounded once to the result's dtype.
template <typename F>
Reference Unary(F f) {
  return [f](const OpView&, Operands in, Results out) {
    const bool is_float = IsFloat(in[0]->type.dtype);
    for (int64_t k = 0; k < out[0].size(); ++k) {
      is_float ? out[0].Put(k, f(in[0]->f[k])) : out[0].Put(k, f(in[0]->i[k]));
    }
  };
}
template <typename F>
Reference Binary(F f) {
  return [f](const OpView&, Operands in, Results out) {
    const bool is_float = IsFloat(in[0]->type.dtype);
    for (int64_t k = 0; k < out[0].size(); ++k) {
      is_float ? out[0].Put(k, f(in[0]->f[k], in[1]->f[k]))
               : out[0].Put(k, f(in[0]->i[k], in[1]->i[k]));
    }
  };
}

// Copies element `i` of `from` to element `k` of `to`, same dtype.
inline void CopyElement(const Tensor& from, int64_t i, Tensor& to, int64_t k) {
  if (from.f.empty()) {
    to.i[k] = from.i[i];
  } else {
    to.f[k] = from.f[i];
  }
}

// Throws `Error` unless `index` is in the domain of operand `i`.
void CheckIndex(const OpView& op, int i, int64_t index);

double NoFlops(const OpView& op);

}  // namespace stator
