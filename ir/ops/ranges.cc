// Movement ops that cut and join: slice, concat, pad.
#include "ir/ops/helpers.h"
#include "ir/ops/ops.h"

#include <algorithm>

namespace stator {
namespace {

int64_t At(const Dims& values, size_t axis, int64_t otherwise) {
  return values.empty() ? otherwise : values[axis];
}

void CheckLength(const OpView& op, const char* attr, bool may_be_empty) {
  const Dims& values = op.Ints(attr);
  if (may_be_empty && values.empty()) return;
  if (static_cast<int>(values.size()) != op.type(0).rank()) {
    Fail(ErrorCode::kInvalidArgument, op.Where(), ": ", attr, " ", values, " does not fit ",
         op.type(0).ToString());
  }
}

Types InferSlice(const OpView& op) {
  const Type& x = op.type(0);
  const Dims &starts = op.Ints("starts"), &limits = op.Ints("limits"), &steps = op.Ints("steps");
  CheckLength(op, "starts", false);
  CheckLength(op, "limits", false);
  CheckLength(op, "steps", true);
  Type out{x.dtype, {}};
  for (int k = 0; k < x.rank(); ++k) {
    const int64_t step = At(steps, k, 1);
    if (starts[k] < 0 || starts[k] > limits[k] || limits[k] > x.shape[k] || step < 1) {
      Fail(ErrorCode::kInvalidArgument, op.Where(), ": [", starts[k], ",", limits[k], ") by ", step,
           " is no part of axis ", k, " of ", x.ToString());
    }
    out.shape.push_back((limits[k] - starts[k] + step - 1) / step);
  }
  return {out};
}

// The gradient puts dy back where it came from: zeros before, between and after.
Values SliceGrad(Builder& b, const OpView& op, const Values& dy) {
  const Type &x = op.type(0), &y = dy[0].type();
  const Dims &starts = op.Ints("starts"), &steps = op.Ints("steps");
  Dims high, interior;
  for (int k = 0; k < x.rank(); ++k) {
    const int64_t n = y.shape[k], step = At(steps, k, 1);
    const int64_t end = n == 0 ? starts[k] : starts[k] + (n - 1) * step + 1;
    high.push_back(x.shape[k] - end);
    interior.push_back(step - 1);
  }
  AttrMap attrs = {{"low", starts}, {"high", high}};
  if (std::any_of(interior.begin(), interior.end(), [](int64_t i) { return i != 0; })) {
    attrs["interior"] = interior;
  }
  return {b.Create1("pad", {dy[0]}, std::move(attrs))};
}

void SliceReference(const OpView& op, Operands in, Results out) {
  const Dims &starts = op.Ints("starts"), &steps = op.Ints("steps");
  const Dims dense = DenseStrides(in[0]->type.shape);
  int64_t base = 0;
  Dims strides;
  for (size_t k = 0; k < dense.size(); ++k) {
    base += starts[k] * dense[k];
    strides.push_back(dense[k] * At(steps, k, 1));
  }
  int64_t k = 0;
  for (Index it(out[0].type.shape); !it.done(); it.Next()) {
    CopyElement(*in[0], base + it.Dot(strides), out[0], k++);
  }
}

Types InferConcat(const OpView& op) {
  Type out = op.type(0);
  const int axis = op.Axis("axis");
  for (int i = 1; i < op.num_operands(); ++i) {
    const Type& x = op.type(i);
    bool fits = x.dtype == out.dtype && x.rank() == out.rank();
    for (int k = 0; fits && k < out.rank(); ++k) fits = k == axis || x.shape[k] == out.shape[k];
    if (!fits) {
      BadOperands(op, StrCat("operands differ besides axis ", axis), op.type(0), x);
    }
    out.shape[axis] += x.shape[axis];
  }
  return {out};
}

void ConcatReference(const OpView& op, Operands in, Results out) {
  const int axis = op.Axis("axis");
  const Dims dense = DenseStrides(out[0].type.shape);
  int64_t base = 0;
  for (const Tensor* x : in) {
    int64_t k = 0;
    for (Index it(x->type.shape); !it.done(); it.Next()) {
      CopyElement(*x, k++, out[0], base + it.Dot(dense));
    }
    base += x->type.shape[axis] * dense[axis];
  }
}

Types InferPad(const OpView& op) {
  Type out = op.type(0);
  for (const char* attr : {"low", "high"}) CheckLength(op, attr, false);
  CheckLength(op, "interior", true);
  for (int k = 0; k < out.rank(); ++k) {
    const int64_t low = op.Ints("low")[k], high = op.Ints("high")[k];
    const int64_t interior = At(op.Ints("interior"), k, 0);
    if (low < 0 || high < 0 || interior < 0) {
      Fail(ErrorCode::kInvalidArgument, op.Where(), ": negative padding ", low, ", ", high, ", ",
           interior, " of axis ", k, " of ", op.type(0).ToString());
    }
    out.shape[k] += low + high + std::max<int64_t>(0, out.shape[k] - 1) * interior;
  }
  return {out};
}

Values PadGrad(Builder& b, const OpView& op, const Values& dy) {
  const Dims &low = op.Ints("low"), &interior = op.Ints("interior");
  Dims limits, steps;
  for (int k = 0; k < op.type(0).rank(); ++k) {
    const int64_t n = op.type(0).shape[k], step = At(interior, k, 0) + 1;
    limits.push_back(low[k] + (n == 0 ? 0 : (n - 1) * step + 1));
    steps.push_back(step);
  }
  return {b.Slice(dy[0], low, limits, steps)};
}

void PadReference(const OpView& op, Operands in, Results out) {
  for (int64_t k = 0; k < out[0].size(); ++k) out[0].Set(k, op.Float("value"));
  const Dims dense = DenseStrides(out[0].type.shape);
  int64_t base = 0;
  Dims strides;
  for (size_t k = 0; k < dense.size(); ++k) {
    base += op.Ints("low")[k] * dense[k];
    strides.push_back(dense[k] * (At(op.Ints("interior"), k, 0) + 1));
  }
  int64_t k = 0;
  for (Index it(in[0]->type.shape); !it.done(); it.Next()) {
    CopyElement(*in[0], k++, out[0], base + it.Dot(strides));
  }
}

}  // namespace

void AddRangeOps(OpRegistry& ops) {
  // Elements starts, starts + steps, ... below limits, on every axis. Empty `steps`: all 1.
  ops.Add({
      .name = "slice",
      .op_class = OpClass::kMovement,
      .operands = {{"x"}},
      .attrs = {{"starts", Dims{}, true}, {"limits", Dims{}, true}, {"steps", Dims{}}},
      .infer = InferSlice,
      .grad = SliceGrad,
      .reference = SliceReference,
      .flops = NoFlops,
      .samples = {"(f32[4,8]) {starts=[1,2], limits=[3,7]}",
                  "(f32[9]) {starts=[1], limits=[8], steps=[3]}",
                  "(bf16[3,5,2]) {starts=[0,0,1], limits=[3,5,2], steps=[2,4,1]}",
                  "(i32[4]) {starts=[2], limits=[2]}", "(f32[0,3]) {starts=[0,1], limits=[0,3]}"},
  });
  ops.Add({
      .name = "concat",
      .op_class = OpClass::kMovement,
      .operands = {{.name = "x", .variadic = true}},
      .attrs = {{"axis", int64_t{0}, true}},
      .infer = InferConcat,
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        const int axis = op.Axis("axis");
        Values dx;
        int64_t at = 0;
        for (int i = 0; i < op.num_operands(); ++i) {
          const int64_t n = op.type(i).shape[axis];
          dx.push_back(b.SliceAxis(dy[0], axis, at, at + n));
          at += n;
        }
        return dx;
      },
      .reference = ConcatReference,
      .flops = NoFlops,
      .samples = {"(f32[4,3], f32[4,5]) {axis=1}", "(f32[1,2], f32[3,2], f32[0,2]) {axis=0}",
                  "(bf16[2,3,4], bf16[2,3,1]) {axis=-1}", "(i32[3]) {axis=0}"},
  });
  // `low` and `high` elements of `value` outside, `interior` between neighbours (empty: none).
  ops.Add({
      .name = "pad",
      .op_class = OpClass::kMovement,
      .operands = {{"x"}},
      .attrs =
          {{"low", Dims{}, true}, {"high", Dims{}, true}, {"interior", Dims{}}, {"value", 0.0}},
      .infer = InferPad,
      .grad = PadGrad,
      .reference = PadReference,
      .flops = NoFlops,
      .samples = {"(f32[4,3]) {low=[0,1], high=[2,3]}",
                  "(bf16[5]) {low=[1], high=[0], interior=[2], value=1.5}",
                  "(i32[2,3]) {low=[1,1], high=[1,1], value=-1}",
                  "(f32[0,3]) {low=[2,0], high=[1,0], interior=[4,1]}"},
  });
}

}  // namespace stator
