// Reductions over any axes; reduced axes keep size 1. The order of combination is reduce_tree.h's.
// Empty `axes` reduce nothing. An empty reduction gives the identity.
#include "ir/ops/helpers.h"
#include "ir/ops/ops.h"
#include "ir/ops/reduce_reference.h"

namespace stator {
namespace {

Types InferReduce(const OpView& op) {
  Type type = op.type(0);
  const std::vector<bool> reduced = AxisMask(op.Ints("axes"), type.rank(), op.Where());
  for (int k = 0; k < type.rank(); ++k) {
    if (reduced[k]) type.shape[k] = 1;
  }
  return {type};
}

OpDef Reduction(const char* name, ReduceKind kind, TypeSet types) {
  return {
      .name = name,
      .op_class = OpClass::kReduce,
      .operands = {{"x", types}},
      .attrs = {{"axes", Dims{}, true}},
      .infer = InferReduce,
      .reduce = kind,
      .reference = [kind](const OpView& op, Operands in,
                          Results out) { out[0] = ReduceReference(*in[0], op.Ints("axes"), kind); },
      .samples = {"(f32[4,8]) {axes=[1]}", "(f32[4,8]) {axes=[0]}", "(bf16[2,3,5]) {axes=[0,2]}",
                  "(f32[3,1,5]) {axes=[1]}", "(f32[2,3]) {axes=[0,1]}", "(f64[0,3]) {axes=[0]}",
                  "(i32[3,4]) {axes=[-1]}", "(f32[2,3]) {axes=[]}", "(f16[2,5,3]) {axes=[1]}"},
  };
}

OpDef MaskReduction(const char* name, ReduceKind kind) {
  OpDef def = Reduction(name, kind, TypeSet::kBoolOnly);
  def.samples = {"(bool[4,8]) {axes=[1]}", "(bool[3,5]) {axes=[0]}", "(bool[0,3]) {axes=[0]}"};
  return def;
}

// The extreme elements share the cotangent equally; where the extreme is NaN, the NaNs do.
Values ExtremeGrad(Builder& b, const OpView& op, const Values& dy) {
  const Value x = op.in(0), y = op.out(0), wide = Wide(b, dy[0]);
  const Value mask = b.Cast(b.Or(b.Eq(x, y), b.Ne(x, x)), wide.dtype());
  const Value count = ReduceOver(b, "sum", mask, op.Ints("axes"));
  return {b.Cast(b.Mul(mask, b.Div(wide, count)), x.dtype())};
}

// dx[i] = dy * product of the others. With no zero in the line that is P / x[i], P the product;
// with one zero it is the product of the rest at the zero and 0 elsewhere; with more it is 0. P is
// taken over the line with zeros replaced by 1, so nothing divides by zero.
Values ProdGrad(Builder& b, const OpView& op, const Values& dy) {
  const Dims& axes = op.Ints("axes");
  const Value x = Wide(b, op.in(0)), d = Wide(b, dy[0]);
  const Value zero = b.ConstantLike(0, x), one = b.ConstantLike(1, x);
  const Value is_zero = b.Eq(x, zero);
  const Value filled = b.Select(is_zero, one, x);
  const Value rest = ReduceOver(b, "prod", filled, axes);
  const Value zeros = ReduceOver(b, "sum", b.Cast(is_zero, x.dtype()), axes);
  const Value others = b.Sub(zeros, b.Cast(is_zero, x.dtype()));  // zeros besides x[i]
  const Value slope = b.Select(b.Eq(others, zero), b.Div(rest, filled), zero);
  return {b.Cast(b.Mul(d, slope), op.in(0).dtype())};
}

}  // namespace

void AddReduceOps(OpRegistry& ops) {
  OpDef sum = Reduction("sum", ReduceKind::kSum, TypeSet::kAnyNumber);
  sum.grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
    return {b.Broadcast(dy[0], op.type(0).shape)};
  };
  sum.samples.push_back("(f32[1,8193]) {axes=[1]}");
  sum.samples.push_back("(f32[1030,3]) {axes=[0]}");
  ops.Add(std::move(sum));

  // NaN wins over numbers in both.
  OpDef max = Reduction("max", ReduceKind::kMax, TypeSet::kAnyNumber);
  max.grad = ExtremeGrad;
  ops.Add(std::move(max));
  OpDef min = Reduction("min", ReduceKind::kMin, TypeSet::kAnyNumber);
  min.grad = ExtremeGrad;
  ops.Add(std::move(min));

  OpDef prod = Reduction("prod", ReduceKind::kProd, TypeSet::kAnyNumber);
  prod.grad = ProdGrad;
  ops.Add(std::move(prod));

  ops.Add(MaskReduction("any", ReduceKind::kAny));
  ops.Add(MaskReduction("all", ReduceKind::kAll));
}

}  // namespace stator
