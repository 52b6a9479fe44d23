// Builder: appends nodes with NumPy broadcasting and names for the common ops.
#pragma once

#include "ir/graph.h"

#include <optional>
#include <string>

namespace stator {

class Builder {
 public:
  explicit Builder(Graph& graph, Node* before = nullptr) : graph_(&graph), before_(before) {}

  Graph& graph() const { return *graph_; }
  const std::string& scope() const { return scope_; }
  void SetScope(Symbol scope) { scope_ = scope; }
  void SetInsertBefore(Node* before) { before_ = before; }
  Node* insert_before() const { return before_; }
  // Facts given to every node created from now on.
  AttrMap& default_facts() { return facts_; }

  // Any op by name. Operands must already satisfy the op (no implicit broadcast).
  Values Create(const std::string& op, std::vector<Value> operands, AttrMap attrs = {});
  Value Create1(const std::string& op, std::vector<Value> operands, AttrMap attrs = {});
  // An elementwise op on operands that are first broadcast to one shape.
  Value Elementwise(const std::string& op, std::vector<Value> operands, AttrMap attrs = {});

  // Scalar `v` broadcast to `shape`.
  Value Constant(double v, DType dtype, const Dims& shape = {});
  Value ConstantLike(double v, Value like) { return Constant(v, like.dtype(), like.shape()); }
  // 0, 1, 2, ... along `axis`.
  Value Iota(DType dtype, const Dims& shape, int axis);

  Value Add(Value a, Value b) { return Elementwise("add", {a, b}); }
  Value Sub(Value a, Value b) { return Elementwise("sub", {a, b}); }
  Value Mul(Value a, Value b) { return Elementwise("mul", {a, b}); }
  Value Div(Value a, Value b) { return Elementwise("div", {a, b}); }
  Value Fma(Value a, Value b, Value c) { return Elementwise("fma", {a, b, c}); }  // a * b + c
  Value Max2(Value a, Value b) { return Elementwise("maximum", {a, b}); }
  Value Min2(Value a, Value b) { return Elementwise("minimum", {a, b}); }
  Value Pow(Value a, Value b) { return Elementwise("pow", {a, b}); }
  Value Add(Value a, double b) { return Add(a, Constant(b, a.dtype())); }
  Value Sub(Value a, double b) { return Sub(a, Constant(b, a.dtype())); }
  Value Mul(Value a, double b) { return Mul(a, Constant(b, a.dtype())); }
  Value Div(Value a, double b) { return Div(a, Constant(b, a.dtype())); }
  Value Fma(Value a, Value b, double c) { return Fma(a, b, Constant(c, a.dtype())); }
  Value Fma(Value a, double b, double c) { return Fma(a, Constant(b, a.dtype()), c); }
  Value RSub(double a, Value b) { return Sub(Constant(a, b.dtype()), b); }
  Value Neg(Value a) { return Elementwise("neg", {a}); }
  Value Exp(Value a) { return Elementwise("exp", {a}); }
  Value ExpSub(Value a, Value b) { return Elementwise("exp_sub", {a, b}); }
  Value Log(Value a) { return Elementwise("log", {a}); }
  Value Sqrt(Value a) { return Elementwise("sqrt", {a}); }
  Value Rsqrt(Value a) { return Elementwise("rsqrt", {a}); }
  Value Tanh(Value a) { return Elementwise("tanh", {a}); }
  Value Sigmoid(Value a) { return Elementwise("sigmoid", {a}); }
  Value Erf(Value a) { return Elementwise("erf", {a}); }
  Value Abs(Value a) { return Elementwise("abs", {a}); }
  Value Eq(Value a, Value b) { return Elementwise("equal", {a, b}); }
  Value Ne(Value a, Value b) { return Elementwise("not_equal", {a, b}); }
  Value Lt(Value a, Value b) { return Elementwise("less", {a, b}); }
  Value Le(Value a, Value b) { return Elementwise("less_equal", {a, b}); }
  Value Gt(Value a, Value b) { return Elementwise("less", {b, a}); }
  Value Ge(Value a, Value b) { return Elementwise("less_equal", {b, a}); }
  Value And(Value a, Value b) { return Elementwise("logical_and", {a, b}); }
  Value Or(Value a, Value b) { return Elementwise("logical_or", {a, b}); }
  Value Not(Value a) { return Elementwise("logical_not", {a}); }
  Value Select(Value condition, Value a, Value b) {
    return Elementwise("select", {condition, a, b});
  }
  Value Cast(Value a, DType to);  // `a` itself when it has that dtype

  // Reductions keep reduced axes at size 1; `drop` removes them. Empty `axes` means all.
  Value Sum(Value a, const Dims& axes, bool drop = false) { return Reduce("sum", a, axes, drop); }
  Value Max(Value a, const Dims& axes, bool drop = false) { return Reduce("max", a, axes, drop); }
  Value Min(Value a, const Dims& axes, bool drop = false) { return Reduce("min", a, axes, drop); }
  Value Sum(Value a, int64_t axis) { return Sum(a, Dims{axis}); }
  Value Max(Value a, int64_t axis) { return Max(a, Dims{axis}); }
  Value Min(Value a, int64_t axis) { return Min(a, Dims{axis}); }
  Value Mean(Value a, const Dims& axes, bool drop = false);
  Value Reduce(const std::string& op, Value a, const Dims& axes, bool drop);

  Value Broadcast(Value a, const Dims& shape);  // NumPy's rule; `a` itself when equal
  // Sums over the axes along which `a` was broadcast from `shape`, the gradient of Broadcast.
  Value SumTo(Value a, const Dims& shape);
  Value Reshape(Value a, const Dims& shape);  // one size may be -1
  Value Transpose(Value a, const Dims& permutation);
  // Elements [starts, limits) by steps, on every axis.
  Value Slice(Value a, const Dims& starts, const Dims& limits, const Dims& steps = {});
  Value SliceAxis(Value a, int64_t axis, int64_t start, int64_t limit, int64_t step = 1);
  Value Concat(const Values& parts, int64_t axis);
  Value Pad(Value a, const Dims& low, const Dims& high, double value = 0);

  // [.., M, K] x [.., K, N] -> [.., M, N], equal batch axes; `transpose_*` swap the last two.
  Value MatMul(Value a, Value b, bool transpose_a = false, bool transpose_b = false,
               std::optional<DType> out = std::nullopt);
  // Rows of `data` along `axis` picked by integer `indices`.
  Value Gather(Value data, Value indices, int64_t axis = 0);

 private:
  Graph* graph_;
  Node* before_;
  Symbol scope_;
  AttrMap facts_;
};

}  // namespace stator
