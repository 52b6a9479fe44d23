#include "ir/builder.h"

#include "ir/base/error.h"

#include <algorithm>

namespace stator {

Values Builder::Create(const std::string& op, std::vector<Value> operands, AttrMap attrs) {
  Node* node = graph_->AddNode(op, std::move(operands), std::move(attrs), scope_, before_);
  for (const auto& [key, value] : facts_) node->SetFact(key, value);
  Values results;
  for (int i = 0; i < node->num_results(); ++i) results.push_back(node->result(i));
  return results;
}

Value Builder::Create1(const std::string& op, std::vector<Value> operands, AttrMap attrs) {
  return Create(op, std::move(operands), std::move(attrs))[0];
}

Value Builder::Elementwise(const std::string& op, std::vector<Value> operands, AttrMap attrs) {
  Dims shape = operands[0].shape();
  const std::string where = scope_.empty() ? op : StrCat(op, " (", scope_, ")");
  for (size_t i = 1; i < operands.size(); ++i) {
    shape = BroadcastShapes(shape, operands[i].shape(), where);
  }
  for (Value& v : operands) v = Broadcast(v, shape);
  return Create1(op, std::move(operands), std::move(attrs));
}

Value Builder::Constant(double v, DType dtype, const Dims& shape) {
  return Broadcast(Create1("constant", {}, {{"value", v}, {"dtype", dtype}}), shape);
}

Value Builder::Iota(DType dtype, const Dims& shape, int axis) {
  return Create1("iota", {}, {{"dtype", dtype}, {"shape", shape}, {"axis", int64_t{axis}}});
}

Value Builder::Cast(Value a, DType to) {
  if (a.dtype() == to) return a;
  return Create1("cast", {a}, {{"to", to}});
}

Value Builder::Reduce(const std::string& op, Value a, const Dims& axes, bool drop) {
  const int rank = a.type().rank();
  std::vector<bool> reduced(rank, axes.empty());
  for (const int64_t axis : axes) reduced[NormalizeAxis(axis, rank, op)] = true;
  Dims normalized, kept;
  for (int i = 0; i < rank; ++i) {
    if (reduced[i]) {
      normalized.push_back(i);
    } else {
      kept.push_back(a.shape()[i]);
    }
  }
  Value r = normalized.empty() ? a : Create1(op, {a}, {{"axes", normalized}});
  return drop ? Reshape(r, kept) : r;
}

Value Builder::Mean(Value a, const Dims& axes, bool drop) {
  const Value sum = Sum(a, axes, drop);
  const int64_t n = sum.type().NumElements();
  // An empty mean is 0/0 = NaN, as everywhere (docs/ir.md).
  const double count = n == 0 ? 0 : static_cast<double>(a.type().NumElements()) / n;
  return Div(sum, count);
}

Value Builder::Broadcast(Value a, const Dims& shape) {
  if (a.shape() == shape) return a;
  return Create1("broadcast", {a}, {{"shape", shape}});
}

Value Builder::SumTo(Value a, const Dims& shape) {
  if (a.shape() == shape) return a;
  const int extra = a.type().rank() - static_cast<int>(shape.size());
  Dims axes;
  for (int i = 0; i < a.type().rank(); ++i) {
    if (i < extra || (shape[i - extra] == 1 && a.shape()[i] != 1)) axes.push_back(i);
  }
  return Reshape(axes.empty() ? a : Sum(a, axes), shape);
}

Value Builder::Reshape(Value a, const Dims& shape) {
  Dims resolved = shape;
  const auto hole = std::find(resolved.begin(), resolved.end(), -1);
  if (hole != resolved.end()) {
    *hole = 1;
    const int64_t rest = NumElements(resolved);
    *hole = rest == 0 ? 0 : a.type().NumElements() / rest;
  }
  if (a.shape() == resolved) return a;
  return Create1("reshape", {a}, {{"shape", resolved}});
}

Value Builder::Transpose(Value a, const Dims& permutation) {
  bool identity = static_cast<int>(permutation.size()) == a.type().rank();
  for (size_t i = 0; i < permutation.size(); ++i) {
    identity = identity && permutation[i] == static_cast<int64_t>(i);
  }
  return identity ? a : Create1("transpose", {a}, {{"permutation", permutation}});
}

Value Builder::Slice(Value a, const Dims& starts, const Dims& limits, const Dims& steps) {
  AttrMap attrs = {{"starts", starts}, {"limits", limits}};
  if (std::any_of(steps.begin(), steps.end(), [](int64_t s) { return s != 1; })) {
    attrs["steps"] = steps;  // left out when all are 1, so that equal slices print alike
  }
  return Create1("slice", {a}, std::move(attrs));
}

Value Builder::SliceAxis(Value a, int64_t axis, int64_t start, int64_t limit, int64_t step) {
  const int k = NormalizeAxis(axis, a.type().rank(), "slice");
  Dims starts(a.type().rank(), 0), limits = a.shape(), steps(a.type().rank(), 1);
  starts[k] = start;
  limits[k] = limit;
  steps[k] = step;
  return Slice(a, starts, limits, steps);
}

Value Builder::Concat(const Values& parts, int64_t axis) {
  return parts.size() == 1 ? parts[0] : Create1("concat", parts, {{"axis", axis}});
}

Value Builder::Pad(Value a, const Dims& low, const Dims& high, double value) {
  return Create1("pad", {a}, {{"low", low}, {"high", high}, {"value", value}});
}

Value Builder::MatMul(Value a, Value b, bool transpose_a, bool transpose_b,
                      std::optional<DType> out) {
  return Create1("matmul", {a, b},
                 {{"transpose_a", transpose_a},
                  {"transpose_b", transpose_b},
                  {"out", out.value_or(a.dtype())}});
}

Value Builder::Gather(Value data, Value indices, int64_t axis) {
  return Create1("gather", {data, indices}, {{"axis", axis}});
}

}  // namespace stator
