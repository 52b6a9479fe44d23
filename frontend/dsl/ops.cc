#include "frontend/dsl/ops.h"

#include "frontend/dsl/emit.h"
#include "ir/base/error.h"

#include <cmath>

namespace stator::dsl {
namespace {

// The operands of an elementwise op as tensors of one dtype: numbers become constants. `first` is
// the first operand that must agree (the condition of a select need not).
Tensor Pointwise(const std::string& op, std::initializer_list<Operand> given, size_t first = 0) {
  std::vector<Operand> operands(given);
  const Location loc = operands[0].loc;
  Tensors tensors;
  const Tensor* typed = nullptr;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].tensor.defined()) continue;
    tensors.push_back(operands[i].tensor);
    if (i >= first && typed == nullptr) typed = &operands[i].tensor;
  }
  const Scope scope = ScopeOf(op, tensors, loc);
  if (typed == nullptr) FailAt(op, scope, loc, "needs a tensor, got numbers only");
  const DType dtype = typed->dtype();
  for (size_t i = first; i < operands.size(); ++i) {
    const Operand& o = operands[i];
    if (o.tensor.defined() && o.tensor.dtype() != dtype) {
      FailAt(op, scope, loc,
             StrCat("dtypes differ: ", typed->value().type().ToString(), " vs ",
                    o.tensor.value().type().ToString(), "; cast one"));
    }
    if (!o.tensor.defined() && !IsFloat(dtype) && o.number != std::floor(o.number)) {
      FailAt(op, scope, loc, StrCat("number ", o.number, " beside a tensor of ", Name(dtype)));
    }
  }
  return EmitAt(scope, loc, [&](Builder& b) {
    Values values;
    for (const Operand& o : operands) {
      values.push_back(o.tensor.defined() ? o.tensor.value() : b.Constant(o.number, dtype));
    }
    return Values{b.Elementwise(op, values)};
  })[0];
}

Tensor Unary(const std::string& op, const Tensor& x, const Location& loc, AttrMap attrs = {}) {
  return Emit(op, {x}, loc, [&](Builder& b) { return b.Create1(op, {x.value()}, attrs); });
}

Tensor Reduction(const std::string& op, const Tensor& x, const Axes& axes, bool keep,
                 const Location& loc) {
  return Emit(op, {x}, loc, [&](Builder& b) { return b.Reduce(op, x.value(), axes.dims, !keep); });
}

// `x` without its axis `axis`, of size 1.
Value DropAxis(Builder& b, Value x, int axis) {
  Dims shape = x.shape();
  shape.erase(shape.begin() + axis);
  return b.Reshape(x, shape);
}

int Axis(std::string_view op, const Tensor& x, int64_t axis) {
  const std::string& path = x.scope().path();
  return NormalizeAxis(axis, x.rank(),
                       path.empty() ? std::string(op) : StrCat(op, " (", path, ')'));
}

}  // namespace

Tensor operator+(const Operand& a, const Operand& b) { return Pointwise("add", {a, b}); }
Tensor operator-(const Operand& a, const Operand& b) { return Pointwise("sub", {a, b}); }
Tensor operator*(const Operand& a, const Operand& b) { return Pointwise("mul", {a, b}); }
Tensor operator/(const Operand& a, const Operand& b) { return Pointwise("div", {a, b}); }
Tensor operator-(const Operand& x) { return Unary("neg", x.tensor, x.loc); }
Tensor Equal(const Operand& a, const Operand& b) { return Pointwise("equal", {a, b}); }
Tensor NotEqual(const Operand& a, const Operand& b) { return Pointwise("not_equal", {a, b}); }
Tensor operator<(const Operand& a, const Operand& b) { return Pointwise("less", {a, b}); }
Tensor operator<=(const Operand& a, const Operand& b) { return Pointwise("less_equal", {a, b}); }
Tensor operator>(const Operand& a, const Operand& b) { return Pointwise("less", {b, a}); }
Tensor operator>=(const Operand& a, const Operand& b) { return Pointwise("less_equal", {b, a}); }
Tensor And(const Operand& a, const Operand& b) { return Pointwise("logical_and", {a, b}); }
Tensor Or(const Operand& a, const Operand& b) { return Pointwise("logical_or", {a, b}); }
Tensor Not(const Tensor& x, Location loc) { return Unary("logical_not", x, loc); }

Tensor Pow(const Operand& a, const Operand& b) { return Pointwise("pow", {a, b}); }
Tensor Maximum(const Operand& a, const Operand& b) { return Pointwise("maximum", {a, b}); }
Tensor Minimum(const Operand& a, const Operand& b) { return Pointwise("minimum", {a, b}); }
Tensor Fma(const Operand& a, const Operand& b, const Operand& c) {
  return Pointwise("fma", {a, b, c});
}
Tensor Select(const Tensor& condition, const Operand& a, const Operand& b) {
  return Pointwise("select", {Operand(condition, a.loc), a, b}, 1);
}
Tensor Clamp(const Tensor& x, double min, double max, Location loc) {
  return Unary("clamp", x, loc, {{"min", min}, {"max", max}});
}

Tensor Abs(const Tensor& x, Location loc) { return Unary("abs", x, loc); }
Tensor Sign(const Tensor& x, Location loc) { return Unary("sign", x, loc); }
Tensor Exp(const Tensor& x, Location loc) { return Unary("exp", x, loc); }
Tensor Log(const Tensor& x, Location loc) { return Unary("log", x, loc); }
Tensor Log1p(const Tensor& x, Location loc) { return Unary("log1p", x, loc); }
Tensor Sqrt(const Tensor& x, Location loc) { return Unary("sqrt", x, loc); }
Tensor Rsqrt(const Tensor& x, Location loc) { return Unary("rsqrt", x, loc); }
Tensor Square(const Tensor& x, Location loc) {
  return Pointwise("mul", {Operand(x, loc), Operand(x, loc)});
}
Tensor Sin(const Tensor& x, Location loc) { return Unary("sin", x, loc); }
Tensor Cos(const Tensor& x, Location loc) { return Unary("cos", x, loc); }
Tensor Tanh(const Tensor& x, Location loc) { return Unary("tanh", x, loc); }
Tensor Erf(const Tensor& x, Location loc) { return Unary("erf", x, loc); }
Tensor Floor(const Tensor& x, Location loc) { return Unary("floor", x, loc); }
Tensor IsFinite(const Tensor& x, Location loc) { return Unary("is_finite", x, loc); }
Tensor Cast(const Tensor& x, DType to, Location loc) {
  return Emit("cast", {x}, loc, [&](Builder& b) { return b.Cast(x.value(), to); });
}

Tensor Sigmoid(const Tensor& x, Location loc) { return Unary("sigmoid", x, loc); }
Tensor Relu(const Tensor& x, Location loc) { return Unary("relu", x, loc); }
Tensor Silu(const Tensor& x, Location loc) { return Unary("silu", x, loc); }
Tensor Softplus(const Tensor& x, Location loc) { return Unary("softplus", x, loc); }
Tensor Gelu(const Tensor& x, Location loc) {
  return Unary("gelu", x, loc, {{"approximate", std::string("none")}});
}
Tensor GeluTanh(const Tensor& x, Location loc) {
  return Unary("gelu", x, loc, {{"approximate", std::string("tanh")}});
}

Tensor Sum(const Tensor& x, const Axes& axes, bool keep, Location loc) {
  return Reduction("sum", x, axes, keep, loc);
}
Tensor Mean(const Tensor& x, const Axes& axes, bool keep, Location loc) {
  return Reduction("mean", x, axes, keep, loc);
}
Tensor Max(const Tensor& x, const Axes& axes, bool keep, Location loc) {
  return Reduction("max", x, axes, keep, loc);
}
Tensor Min(const Tensor& x, const Axes& axes, bool keep, Location loc) {
  return Reduction("min", x, axes, keep, loc);
}
Tensor Prod(const Tensor& x, const Axes& axes, bool keep, Location loc) {
  return Reduction("prod", x, axes, keep, loc);
}
Tensor Any(const Tensor& x, const Axes& axes, bool keep, Location loc) {
  return Reduction("any", x, axes, keep, loc);
}
Tensor All(const Tensor& x, const Axes& axes, bool keep, Location loc) {
  return Reduction("all", x, axes, keep, loc);
}
Tensor LogSumExp(const Tensor& x, const Axes& axes, bool keep, Location loc) {
  return Reduction("logsumexp", x, axes, keep, loc);
}
Tensor Variance(const Tensor& x, const Axes& axes, bool keep, int64_t correction, Location loc) {
  return Emit("variance", {x}, loc, [&](Builder& b) {
    Dims all, shape;
    for (int i = 0; i < x.rank(); ++i) all.push_back(i);
    const Dims& given = axes.dims.empty() ? all : axes.dims;
    const Value v =
        b.Create1("variance", {x.value()}, {{"axes", given}, {"correction", correction}});
    std::vector<bool> reduced(x.rank());
    for (const int64_t axis : given) reduced[Axis("variance", x, axis)] = true;
    for (int i = 0; i < x.rank(); ++i) {
      if (!reduced[i]) shape.push_back(x.shape()[i]);
    }
    return keep ? v : b.Reshape(v, shape);
  });
}
Tensor ArgMax(const Tensor& x, int64_t axis, bool keep, Location loc) {
  return Emit("argmax", {x}, loc, [&](Builder& b) {
    const Value v = b.Create1("argmax", {x.value()}, {{"axis", axis}});
    return keep ? v : DropAxis(b, v, Axis("argmax", x, axis));
  });
}
Tensor CumSum(const Tensor& x, int64_t axis, bool reverse, bool exclusive, Location loc) {
  return Unary("cumsum", x, loc, {{"axis", axis}, {"reverse", reverse}, {"exclusive", exclusive}});
}
Tensor Softmax(const Tensor& x, int64_t axis, Location loc) {
  return Unary("softmax", x, loc, {{"axis", axis}});
}
Tensor LogSoftmax(const Tensor& x, int64_t axis, Location loc) {
  return Unary("log_softmax", x, loc, {{"axis", axis}});
}

Tensor Broadcast(const Tensor& x, const Dims& shape, Location loc) {
  return Emit("broadcast", {x}, loc, [&](Builder& b) { return b.Broadcast(x.value(), shape); });
}
Tensor Reshape(const Tensor& x, const Dims& shape, Location loc) {
  return Emit("reshape", {x}, loc, [&](Builder& b) { return b.Reshape(x.value(), shape); });
}
Tensor Transpose(const Tensor& x, const Dims& permutation, Location loc) {
  return Emit("transpose", {x}, loc, [&](Builder& b) {
    Dims axes;
    for (const int64_t axis : permutation) axes.push_back(Axis("transpose", x, axis));
    return b.Transpose(x.value(), axes);
  });
}
Tensor Slice(const Tensor& x, int64_t axis, int64_t start, int64_t limit, int64_t step,
             Location loc) {
  return Emit("slice", {x}, loc, [&](Builder& b) {
    return b.SliceAxis(x.value(), Axis("slice", x, axis), start, limit, step);
  });
}
Tensor Concat(const Tensors& parts, int64_t axis, Location loc) {
  const Scope scope = ScopeOf("concat", parts, loc);
  return EmitAt(scope, loc, [&](Builder& b) {
    Values values;
    for (const Tensor& t : parts) values.push_back(t.value());
    return Values{b.Concat(values, axis)};
  })[0];
}
Tensor Pad(const Tensor& x, const Dims& low, const Dims& high, double value, Location loc) {
  return Emit("pad", {x}, loc, [&](Builder& b) { return b.Pad(x.value(), low, high, value); });
}

Tensor MatMul(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b, Location loc) {
  return Emit("matmul", {a, b}, loc, [&](Builder& builder) {
    Value x = a.value(), y = b.value();
    const std::string& path = ScopeOf("matmul", std::vector{a, b}, loc).path();
    const std::string where = path.empty() ? "matmul" : StrCat("matmul (", path, ')');
    if (a.dtype() != b.dtype()) {
      Fail(ErrorCode::kInvalidArgument, where, ": dtypes differ: ", x.type().ToString(), " vs ",
           y.type().ToString(), "; cast one");
    }
    if (a.rank() < 2 || b.rank() < 2) {
      Fail(ErrorCode::kInvalidArgument, where, ": takes matrices, got ", x.type().ToString(),
           " and ", y.type().ToString());
    }
    // Leading axes of `a` against a single matrix are rows of one large matrix.
    if (a.rank() > 2 && b.rank() == 2 && !transpose_a) {
      Dims shape = a.shape();
      x = builder.MatMul(builder.Reshape(x, {-1, shape.back()}), y, false, transpose_b);
      shape.back() = x.shape().back();
      return builder.Reshape(x, shape);
    }
    const auto leading = [](Value v) { return Dims(v.shape().begin(), v.shape().end() - 2); };
    const Dims batch = BroadcastShapes(leading(x), leading(y), where);
    for (Value* v : {&x, &y}) {
      Dims shape = batch;
      shape.insert(shape.end(), v->shape().end() - 2, v->shape().end());
      *v = builder.Broadcast(*v, shape);
    }
    return builder.MatMul(x, y, transpose_a, transpose_b);
  });
}
Tensor Gather(const Tensor& data, const Tensor& indices, int64_t axis, Location loc) {
  return Emit("gather", {data, indices}, loc,
              [&](Builder& b) { return b.Gather(data.value(), indices.value(), axis); });
}
Tensor TakeAlong(const Tensor& data, const Tensor& indices, int64_t axis, Location loc) {
  return Op("take_along", {data, indices}, {{"axis", axis}}, loc)[0];
}
Tensor SegmentSum(const Tensor& updates, const Tensor& indices, int64_t rows, Location loc) {
  return Op("segment_sum", {updates, indices}, {{"rows", rows}}, loc)[0];
}
Sorted Sort(const Tensor& x, int64_t axis, bool descending, Location loc) {
  const Tensors r = Op("sort", {x}, {{"axis", axis}, {"descending", descending}}, loc);
  return {r[0], r[1]};
}
Sorted TopK(const Tensor& x, int64_t k, int64_t axis, Location loc) {
  const Tensors r = Op("top_k", {x}, {{"k", k}, {"axis", axis}}, loc);
  return {r[0], r[1]};
}

Tensors Op(const std::string& name, const Tensors& operands, const AttrMap& attrs, Location loc) {
  const Scope scope = ScopeOf(name, operands, loc);
  return EmitAt(scope, loc, [&](Builder& b) {
    Values values;
    for (const Tensor& t : operands) values.push_back(t.value());
    return b.Create(name, values, attrs);
  });
}

Tensor Tensor::Cast(DType to, Location loc) const { return dsl::Cast(*this, to, loc); }
Tensor Tensor::Reshape(const Dims& shape, Location loc) const {
  return dsl::Reshape(*this, shape, loc);
}
Tensor Tensor::Transpose(const Dims& permutation, Location loc) const {
  return dsl::Transpose(*this, permutation, loc);
}
Tensor Tensor::Slice(int64_t axis, int64_t start, int64_t limit, Location loc) const {
  return dsl::Slice(*this, axis, start, limit, 1, loc);
}

}  // namespace stator::dsl
