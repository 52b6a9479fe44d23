// Softmax and norms: composites that compute in f32. Their gradients read few saved values, and
// each is one pass over a row plus, for scale and bias, sums over rows.
#include "ir/ops/helpers.h"
#include "ir/ops/ops.h"

#include <limits>

namespace stator {
namespace {

Types InferAlongAxis(const OpView& op) {
  op.Axis("axis");
  return {op.type(0)};
}

Value MaxAlong(Builder& b, const OpView& op) { return b.Max(op.in(0), op.Int("axis")); }

// y of x's type, then `statistics` values of [.., 1]; scale and bias are [C] like x's last axis.
Types InferNorm(const OpView& op, int statistics) {
  const Type& x = op.type(0);
  if (x.rank() < 1) BadOperand(op, "needs an axis to normalize over", x);
  for (int i = 1; i < op.num_operands(); ++i) {
    if (!op.has(i)) continue;
    if (op.type(i).shape != Dims{x.dim(-1)} ||
        ComputeType(op.type(i).dtype) != ComputeType(x.dtype)) {
      BadOperands(op, StrCat(op.def().operands[i].name, " does not fit the last axis"), op.type(i),
                  x);
    }
  }
  Type statistic{StatType(x.dtype), x.shape};
  statistic.shape.back() = 1;
  Types types = {x};
  types.resize(1 + statistics, statistic);
  return types;
}

Value MeanOfRow(Builder& b, Value x) { return b.Mean(x, {-1}); }

// x * scale + bias, each where present.
Value Affine(Builder& b, Value x, Value scale, Value bias) {
  if (scale) x = b.Mul(x, scale);
  return bias ? b.Add(x, bias) : x;
}

// Adds `extra` to `sum`, which may be null.
Value Plus(Builder& b, Value sum, Value extra) { return sum ? b.Add(sum, extra) : extra; }

// y = xhat * scale + bias with xhat = (x - mean) * rstd. With g = dy * scale:
//   dx = rstd * (g - mean(g) - xhat * mean(g * xhat)), dscale = sum(dy * xhat), dbias = sum(dy).
Values LayerNormGrad(Builder& b, const OpView& op, const Values& dy) {
  const Value x = op.in(0), scale = op.in(1);
  const Value mean = Wide(b, op.out(1)), rstd = Wide(b, op.out(2));
  const Value xhat = b.Mul(b.Sub(x, mean), rstd);
  const double n = static_cast<double>(x.type().dim(-1));
  Values dx(3);
  if (dy[0]) {
    const Value g = Affine(b, dy[0], scale, {});
    const Value inner = b.Sub(b.Sub(g, MeanOfRow(b, g)), b.Mul(xhat, MeanOfRow(b, b.Mul(g, xhat))));
    dx[0] = b.Mul(inner, rstd);
    if (scale) dx[1] = b.SumTo(b.Mul(dy[0], xhat), scale.shape());
    if (op.has(2)) dx[2] = b.SumTo(dy[0], op.in(2).shape());
  }
  // d mean / dx = 1/n; d rstd / dx = -rstd^2 xhat / n.
  if (dy[1]) dx[0] = Plus(b, dx[0], b.Broadcast(b.Div(dy[1], n), x.shape()));
  if (dy[2]) {
    dx[0] = Plus(b, dx[0], b.Mul(xhat, b.Mul(b.Mul(dy[2], b.Mul(rstd, rstd)), -1 / n)));
  }
  return dx;
}

// y = xhat * scale with xhat = x * rstd. With g = dy * scale:
//   dx = rstd * (g - xhat * mean(g * xhat)), dscale = sum(dy * xhat).
Values RmsNormGrad(Builder& b, const OpView& op, const Values& dy) {
  const Value x = op.in(0), scale = op.in(1), rstd = Wide(b, op.out(1));
  const Value xhat = b.Mul(x, rstd);
  const double n = static_cast<double>(x.type().dim(-1));
  Values dx(2);
  if (dy[0]) {
    const Value g = Affine(b, dy[0], scale, {});
    dx[0] = b.Mul(b.Sub(g, b.Mul(xhat, MeanOfRow(b, b.Mul(g, xhat)))), rstd);
    if (scale) dx[1] = b.SumTo(b.Mul(dy[0], xhat), scale.shape());
  }
  if (dy[1]) {
    dx[0] = Plus(b, dx[0], b.Mul(xhat, b.Mul(b.Mul(dy[1], b.Mul(rstd, rstd)), -1 / n)));
  }
  return dx;
}

void AddSoftmaxOps(OpRegistry& ops) {
  // exp(x - max) / sum(exp(x - max)) along `axis`. A row of -inf gives NaN.
  ops.Add({
      .name = "softmax",
      .op_class = OpClass::kComposite,
      .operands = {{"x", TypeSet::kAnyFloat}},
      .attrs = {{"axis", int64_t{-1}}},
      .precision = Precision::kComputeInF32,
      .infer = InferAlongAxis,
      .expand = [](Builder& b, const OpView& op) -> Values {
        const Value e = b.ExpSub(op.in(0), MaxAlong(b, op));
        return {b.Div(e, b.Sum(e, op.Int("axis")))};
      },
      // dx = y * (dy - sum(y * dy)).
      .grad = InF32([](Builder& b, const OpView& op, const Values& dy) -> Values {
        const Value y = Wide(b, op.out(0));
        const Value dot = b.Sum(b.Mul(y, dy[0]), op.Int("axis"));
        return {b.Mul(y, b.Sub(dy[0], dot))};
      }),
      .flops =
          [](const OpView& op) { return 14.0 * static_cast<double>(op.type(0).NumElements()); },
      .samples = {"(f32[4,8])", "(bf16[2,3,5]) {axis=1}", "(f32[3,1])", "(f32[2,1025])",
                  "(f64[7]) {axis=0}", "(f32[0,4])"},
  });
  // x - logsumexp(x) along `axis`.
  ops.Add({
      .name = "log_softmax",
      .op_class = OpClass::kComposite,
      .operands = {{"x", TypeSet::kAnyFloat}},
      .attrs = {{"axis", int64_t{-1}}},
      .precision = Precision::kComputeInF32,
      .infer = InferAlongAxis,
      .expand = [](Builder& b, const OpView& op) -> Values {
        const Value x = op.in(0), m = MaxAlong(b, op);
        return {b.Sub(b.Sub(x, m), b.Log(b.Sum(b.ExpSub(x, m), op.Int("axis"))))};
      },
      // dx = dy - exp(y) * sum(dy).
      .grad = InF32([](Builder& b, const OpView& op, const Values& dy) -> Values {
        const Value p = b.Exp(Wide(b, op.out(0)));
        return {b.Sub(dy[0], b.Mul(p, b.Sum(dy[0], op.Int("axis"))))};
      }),
      .flops =
          [](const OpView& op) { return 14.0 * static_cast<double>(op.type(0).NumElements()); },
      .samples = {"(f32[4,8])", "(bf16[2,3,5]) {axis=1}", "(f32[3,1])", "(f32[2,1025])",
                  "(f64[7]) {axis=0}", "(f32[0,4])"},
  });
}

}  // namespace

void AddNormalizationOps(OpRegistry& ops) {
  AddSoftmaxOps(ops);
  // Over the last axis: (y, mean, 1 / sqrt(variance + eps)). The variance is two-pass, biased.
  ops.Add({
      .name = "layer_norm",
      .op_class = OpClass::kComposite,
      .operands = {{"x", TypeSet::kAnyFloat},
                   {.name = "scale", .types = TypeSet::kAnyFloat, .optional = true, .wide = true},
                   {.name = "bias", .types = TypeSet::kAnyFloat, .optional = true, .wide = true}},
      .attrs = {{"eps", 1e-5}},
      .precision = Precision::kComputeInF32,
      .infer = [](const OpView& op) { return InferNorm(op, 2); },
      .expand = [](Builder& b, const OpView& op) -> Values {
        const Value mean = MeanOfRow(b, op.in(0)), d = b.Sub(op.in(0), mean);
        const Value rstd = b.Rsqrt(b.Add(MeanOfRow(b, b.Mul(d, d)), op.Float("eps")));
        return {Affine(b, b.Mul(d, rstd), op.in(1), op.in(2)), mean, rstd};
      },
      .grad = InF32(LayerNormGrad),
      .flops = [](const OpView& op) { return 8.0 * static_cast<double>(op.type(0).NumElements()); },
      .samples = {"(f32[4,8], f32[8], f32[8])", "(bf16[2,3,5], f32[5], f32[5])", "(f32[3,7])",
                  "(f32[3,7], f32[7]) {eps=0.001}", "(f32[3,7], _, f32[7])", "(f32[2,1])",
                  "(bf16[6,16], bf16[16], bf16[16])", "(f64[9], f64[9], f64[9])",
                  "(f32[2,1030], f32[1030])", "(f32[0,4], f32[4], f32[4])"},
  });
  // Over the last axis: (y, 1 / sqrt(mean(x^2) + eps)).
  ops.Add({
      .name = "rms_norm",
      .op_class = OpClass::kComposite,
      .operands = {{"x", TypeSet::kAnyFloat},
                   {.name = "scale", .types = TypeSet::kAnyFloat, .optional = true, .wide = true}},
      .attrs = {{"eps", 1e-5}},
      .precision = Precision::kComputeInF32,
      .infer = [](const OpView& op) { return InferNorm(op, 1); },
      .expand = [](Builder& b, const OpView& op) -> Values {
        const Value x = op.in(0);
        const Value rstd = b.Rsqrt(b.Add(MeanOfRow(b, b.Mul(x, x)), op.Float("eps")));
        return {Affine(b, b.Mul(x, rstd), op.in(1), {}), rstd};
      },
      .grad = InF32(RmsNormGrad),
      .flops = [](const OpView& op) { return 5.0 * static_cast<double>(op.type(0).NumElements()); },
      .samples = {"(f32[4,8], f32[8])", "(bf16[2,3,5], f32[5])", "(f32[3,7]) {eps=1e-6}",
                  "(f32[2,1])", "(f64[9], f64[9])", "(f32[2,1030], f32[1030])",
                  "(f32[0,4], f32[4])"},
  });
}

}  // namespace stator
