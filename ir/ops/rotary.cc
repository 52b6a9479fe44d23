// Rotary position embedding (Su et al. 2021), half-split as in Llama: dimension j of the first half
// pairs with dimension j of the second.
#include "ir/ops/helpers.h"
#include "ir/ops/ops.h"

namespace stator {
namespace {

Types InferRotary(const OpView& op) {
  const Type& x = op.type(0);
  if (x.rank() != 4 || x.dim(3) % 2 != 0) BadOperand(op, "x must be [B,T,H,D] with even D", x);
  for (const int i : {1, 2}) {
    if (op.type(i).shape != Dims{x.dim(1), x.dim(3) / 2} ||
        ComputeType(op.type(i).dtype) != ComputeType(x.dtype)) {
      BadOperands(op, "tables must be [T,D/2] of x", op.type(i), x);
    }
  }
  return {x};
}

struct Halves {
  Value first, second;
};

Halves Split(Builder& b, Value x) {
  const int64_t d = x.type().dim(3);
  return {b.SliceAxis(x, 3, 0, d / 2), b.SliceAxis(x, 3, d / 2, d)};
}

// [T,D/2] to [T,1,D/2], which broadcasts over heads and batch.
Value PerPosition(Builder& b, Value table) {
  return b.Reshape(table, {table.shape()[0], 1, table.shape()[1]});
}

// (x1, x2) turned by the angle whose cosine and sine are given: (x1 c - x2 s, x2 c + x1 s).
Value Rotate(Builder& b, const Halves& x, Value cos, Value sin) {
  const Value c = PerPosition(b, cos), s = PerPosition(b, sin);
  return b.Concat(
      {b.Sub(b.Mul(x.first, c), b.Mul(x.second, s)), b.Add(b.Mul(x.second, c), b.Mul(x.first, s))},
      3);
}

// dx is dy turned back; dcos = sum of dy1 x1 + dy2 x2, dsin = sum of dy2 x1 - dy1 x2.
Values RotaryGrad(Builder& b, const OpView& op, const Values& dy) {
  const Value cos = op.in(1), sin = op.in(2);
  const Halves x = Split(b, op.in(0)), d = Split(b, dy[0]);
  const Dims row = {cos.shape()[0], 1, cos.shape()[1]};
  const Value dcos = b.Add(b.Mul(d.first, x.first), b.Mul(d.second, x.second));
  const Value dsin = b.Sub(b.Mul(d.second, x.first), b.Mul(d.first, x.second));
  return {Rotate(b, d, cos, b.Neg(sin)), b.Reshape(b.SumTo(dcos, row), cos.shape()),
          b.Reshape(b.SumTo(dsin, row), sin.shape())};
}

}  // namespace

void AddRotaryOps(OpRegistry& ops) {
  // x [B,T,H,D]; cos, sin [T,D/2] hold the angles of each position.
  ops.Add({
      .name = "rotary",
      .op_class = OpClass::kComposite,
      .operands = {{"x", TypeSet::kAnyFloat},
                   {.name = "cos", .types = TypeSet::kAnyFloat, .wide = true},
                   {.name = "sin", .types = TypeSet::kAnyFloat, .wide = true}},
      .precision = Precision::kComputeInF32,
      .infer = InferRotary,
      .expand = [](Builder& b, const OpView& op) -> Values {
        return {Rotate(b, Split(b, op.in(0)), op.in(1), op.in(2))};
      },
      .grad = InF32(RotaryGrad),
      .flops = [](const OpView& op) { return 3.0 * static_cast<double>(op.type(0).NumElements()); },
      .samples = {"(f32[2,5,3,8], f32[5,4], f32[5,4])", "(bf16[1,3,2,6], f32[3,3], f32[3,3])",
                  "(f32[2,1,1,2], f32[1,1], f32[1,1])", "(bf16[2,5,3,48], f32[5,24], f32[5,24])",
                  "(f64[0,3,2,4], f64[3,2], f64[3,2])"},
  });
}

}  // namespace stator
