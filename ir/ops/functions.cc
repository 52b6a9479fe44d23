// Elementwise functions of one float. References are the C library's in f64, rounded once.
#include "ir/ops/helpers.h"
#include "ir/ops/ops.h"

#include <cmath>
#include <numbers>

namespace stator {
namespace {

std::vector<OperandDef> Float() { return {{"x", TypeSet::kAnyFloat}}; }
std::vector<OperandDef> PositiveFloat() {
  return {{.name = "x", .types = TypeSet::kAnyFloat, .domain = Domain::kPositive}};
}
std::vector<std::string> Samples() {
  return {"(f32[4,8])", "(bf16[3,5])", "(f32[1,7,1])", "(f64[0])"};
}

// A transcendental function counts as ten operations.
double TenEach(const OpView& op) { return 10.0 * static_cast<double>(op.type(0).NumElements()); }

template <double (*f)(double)>
Reference Function() {
  return Unary([](auto x) { return f(static_cast<double>(x)); });
}

void AddRoots(OpRegistry& ops) {
  // The gradient at 0 is 0, not infinite, so that the gradient of a norm at 0 is 0.
  ops.Add({
      .name = "sqrt",
      .operands = PositiveFloat(),
      .scalar = "st_sqrt(x)",
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        const Value y = op.out(0), zero = b.ConstantLike(0, y);
        return {b.Select(b.Eq(y, zero), zero, b.Div(b.Mul(dy[0], 0.5), y))};
      },
      .reference = Function<std::sqrt>(),
      .samples = Samples(),
  });
  // 1 / sqrt(x), each step rounded to the compute type.
  ops.Add({
      .name = "rsqrt",
      .operands = PositiveFloat(),
      .scalar = "st_rsqrt(x)",
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        const Value y = op.out(0);
        return {b.Mul(dy[0], b.Mul(b.Mul(y, b.Mul(y, y)), -0.5))};
      },
      .reference =
          [](const OpView&, Operands in, Results out) {
            const DType t = ComputeType(in[0]->type.dtype);
            for (int64_t k = 0; k < out[0].size(); ++k) {
              out[0].Set(k, RoundFloat(t, 1 / RoundFloat(t, std::sqrt(in[0]->f[k]))));
            }
          },
      .samples = Samples(),
  });
}

void AddExponentials(OpRegistry& ops) {
  ops.Add({
      .name = "exp",
      .operands = Float(),
      .scalar = "st_exp(x)",
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        return {b.Mul(dy[0], op.out(0))};
      },
      .reference = Function<std::exp>(),
      .flops = TenEach,
      .samples = Samples(),
  });
  // exp(a - b), the shifted exponential of softmax and its kin. A GPU computes it by 2^((a - b)
  // log2 e) in f32: the relative error grows with |a - b|, the absolute one does not, and what is
  // below the smallest normal number is 0.
  ops.Add({
      .name = "exp_sub",
      .operands = {{"a", TypeSet::kAnyFloat}, {"b", TypeSet::kAnyFloat}},
      .scalar = "st_exp_sub(a, b)",
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        const Value da = b.Mul(dy[0], op.out(0));
        return {da, b.Neg(da)};
      },
      .reference = Binary(
          [](auto a, auto b) { return std::exp(static_cast<double>(a) - static_cast<double>(b)); }),
      .flops = TenEach,
      .samples = {"(f32[4,8], f32[4,8])", "(bf16[3,5], bf16[3,5])", "(f64[7], f64[7])"},
  });
  ops.Add({
      .name = "log",
      .operands = PositiveFloat(),
      .scalar = "st_log(x)",
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        return {b.Div(dy[0], op.in(0))};
      },
      .reference = Function<std::log>(),
      .flops = TenEach,
      .samples = Samples(),
  });
  ops.Add({
      .name = "log1p",
      .operands = PositiveFloat(),
      .scalar = "st_log1p(x)",
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        return {b.Div(dy[0], b.Add(op.in(0), 1))};
      },
      .reference = Function<std::log1p>(),
      .flops = TenEach,
      .samples = Samples(),
  });
}

void AddCurves(OpRegistry& ops) {
  ops.Add({
      .name = "tanh",
      .operands = Float(),
      .scalar = "st_tanh(x)",
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        const Value y = op.out(0);
        return {b.Mul(dy[0], b.RSub(1, b.Mul(y, y)))};
      },
      .reference = Function<std::tanh>(),
      .flops = TenEach,
      .samples = Samples(),
  });
  // d/dx erf(x) = 2/sqrt(pi) exp(-x^2).
  ops.Add({
      .name = "erf",
      .operands = Float(),
      .scalar = "st_erf(x)",
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        const Value x = op.in(0);
        const Value bell = b.Mul(b.Exp(b.Neg(b.Mul(x, x))), 2 * std::numbers::inv_sqrtpi);
        return {b.Mul(dy[0], bell)};
      },
      .reference = Function<std::erf>(),
      .flops = TenEach,
      .samples = Samples(),
  });
  ops.Add({
      .name = "sigmoid",
      .operands = Float(),
      .scalar = "st_sigmoid(x)",
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        const Value y = op.out(0);
        return {b.Mul(dy[0], b.Mul(y, b.RSub(1, y)))};
      },
      .reference = Unary([](auto x) { return 1 / (1 + std::exp(-static_cast<double>(x))); }),
      .flops = TenEach,
      .samples = Samples(),
  });
  ops.Add({
      .name = "sin",
      .operands = Float(),
      .scalar = "st_sin(x)",
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        return {b.Mul(dy[0], b.Elementwise("cos", {op.in(0)}))};
      },
      .reference = Function<std::sin>(),
      .flops = TenEach,
      .samples = Samples(),
  });
  ops.Add({
      .name = "cos",
      .operands = Float(),
      .scalar = "st_cos(x)",
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        return {b.Neg(b.Mul(dy[0], b.Elementwise("sin", {op.in(0)})))};
      },
      .reference = Function<std::cos>(),
      .flops = TenEach,
      .samples = Samples(),
  });
}

}  // namespace

void AddFunctionOps(OpRegistry& ops) {
  AddRoots(ops);
  AddExponentials(ops);
  AddCurves(ops);
  // No gradient.
  ops.Add({
      .name = "floor",
      .operands = Float(),
      .scalar = "st_floor(x)",
      .reference = Function<std::floor>(),
      .samples = Samples(),
  });
  ops.Add({
      .name = "is_finite",
      .operands = Float(),
      .infer =
          [](const OpView& op) {
            return Types{{DType::kBool, op.type(0).shape}};
          },
      .scalar = "st_is_finite(x)",
      .reference = Unary([](auto x) { return std::isfinite(static_cast<double>(x)); }),
      .samples = Samples(),
  });
}

}  // namespace stator
