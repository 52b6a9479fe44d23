#include "ir/ops/helpers.h"

#include <limits>

namespace stator {

std::vector<bool> AxisMask(const Dims& axes, int rank, const std::string& what) {
  std::vector<bool> mask(rank, false);
  for (const int64_t axis : axes) {
    const int k = NormalizeAxis(axis, rank, what);
    if (mask[k]) Fail(ErrorCode::kInvalidArgument, what, ": axis ", axis, " is repeated in ", axes);
    mask[k] = true;
  }
  return mask;
}

namespace {
constexpr int64_t kLongRow = 8192;  // elements that no thread group holds between two sweeps
}

Value LogSumExp(Builder& b, Value x, const Dims& axes) {
  const int last = x.type().rank() - 1;
  if (axes.size() == 1 && NormalizeAxis(axes[0], last + 1, "logsumexp") == last &&
      x.type().dim(-1) >= kLongRow) {
    return b.Create1("online_logsumexp", {x}, {{"axes", axes}});
  }
  const Value m = ReduceOver(b, "max", x, axes);
  // exp(-inf - -inf) would be NaN; shifting by 0 instead gives log(0) = -inf.
  const Value finite = b.Elementwise("is_finite", {m});
  const Value shift = b.Select(finite, m, b.ConstantLike(0, m));
  return b.Add(b.Log(ReduceOver(b, "sum", b.ExpSub(x, shift), axes)), shift);
}

Value ScatterAlong(Builder& b, Value dy, Value indices, const Type& data, int axis) {
  // Positions in the flattened data: sum over axes of index * stride.
  const int64_t n = data.NumElements();
  const DType dtype = n > std::numeric_limits<int32_t>::max() ? DType::kI64 : DType::kI32;
  const Dims strides = DenseStrides(data.shape);
  Value position = b.Mul(b.Cast(indices, dtype), static_cast<double>(strides[axis]));
  for (int k = 0; k < data.rank(); ++k) {
    if (k == axis || data.shape[k] == 1) continue;
    Dims line(data.rank(), 1);
    line[k] = indices.shape()[k];
    const Value at = b.Iota(dtype, line, k);
    position = b.Add(position, b.Mul(at, static_cast<double>(strides[k])));
  }
  const Value sum =
      b.Create1("segment_sum", {b.Reshape(dy, {-1}), b.Reshape(position, {-1})}, {{"rows", n}});
  return b.Reshape(sum, data.shape);
}

Gradient InF32(Gradient grad) {
  return [grad = std::move(grad)](Builder& b, const OpView& op, const Values& dy) -> Values {
    const auto widened = [&](Value v) { return v && IsFloat(v.dtype()) ? Wide(b, v) : v; };
    std::vector<Value> operands;
    for (const Value& v : op.operands()) operands.push_back(widened(v));
    Values wide_dy;
    for (const Value& v : dy) wide_dy.push_back(widened(v));
    Values dx = grad(b, OpView(op.def(), operands, op.attrs(), op.node()), wide_dy);
    for (int i = 0; i < op.num_operands(); ++i) {
      if (dx[i]) dx[i] = b.Cast(dx[i], op.type(i).dtype);
    }
    return dx;
  };
}

void CheckIndex(const OpView& op, int i, int64_t index) {
  const int64_t limit = IndexLimit(op, i);
  if ((index >= 0 && index < limit) || index == IgnoredIndex(op, i)) return;
  Fail(ErrorCode::kInvalidArgument, op.Where(), ": ", op.def().operands[i].name, " holds ", index,
       ", not in [0,", limit, ")");
}

double NoFlops(const OpView&) { return 0; }

}  // namespace stator
