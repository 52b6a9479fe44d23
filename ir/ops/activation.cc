// Activations. All but relu compute in f32. Multiplications that feed additions are `fma`, one
// instruction where they are the most of a kernel's work: the epilogue of a product.
#include "ir/ops/helpers.h"
#include "ir/ops/ops.h"

#include <numbers>

namespace stator {
namespace {

const char* const kTanh = "tanh";
const double kSqrt2OverPi = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
constexpr double kCubic = 0.044715;

std::vector<OperandDef> Float() { return {{"x", TypeSet::kAnyFloat}}; }
Types SameType(const OpView& op) { return {op.type(0)}; }

std::vector<std::string> Samples() {
  return {"(f32[4,8])", "(bf16[3,5])", "(f32[1,7,1])", "(f64[0])"};
}

// With u = sqrt(2/pi) (x + 0.044715 x^3), (1 + tanh(u)) / 2 is sigmoid(2u): the same curve for half
// the arithmetic.
Value TanhShare(Builder& b, Value x) {
  const Value slope = b.Fma(b.Mul(x, x), 2 * kCubic * kSqrt2OverPi, 2 * kSqrt2OverPi);
  return b.Sigmoid(b.Mul(x, slope));
}

Value ErfShare(Builder& b, Value x) {
  return b.Fma(b.Erf(b.Mul(x, 1 / std::numbers::sqrt2)), 0.5, 0.5);
}

// x (1 - s)
Value Rest(Builder& b, Value x, Value s) { return b.Fma(b.Neg(x), s, x); }

// y = x s(x), the share of x that passes; dy/dx = s + x s'. Of the sigmoid, s' is s (1 - s) (2u)'.
Values GeluGrad(Builder& b, const OpView& op, const Values& dy) {
  const Value x = op.in(0);
  if (op.Str("approximate") == kTanh) {
    const Value s = TanhShare(b, x);
    const Value slope = b.Fma(b.Mul(x, x), 6 * kCubic * kSqrt2OverPi, 2 * kSqrt2OverPi);
    // s comes first: where it is 0 the rest, however large, is gone before it can overflow.
    return {b.Mul(dy[0], b.Fma(b.Mul(s, Rest(b, x, s)), slope, s))};
  }
  const Value bell = b.Mul(b.Exp(b.Mul(b.Mul(x, x), -0.5)), kSqrt2OverPi / 2);
  return {b.Mul(dy[0], b.Fma(x, bell, ErfShare(b, x)))};
}

}  // namespace

void AddActivationOps(OpRegistry& ops) {
  // x * Phi(x), by erf ("none") or by a tanh that approximates it ("tanh", GPT-2's).
  ops.Add({
      .name = "gelu",
      .op_class = OpClass::kComposite,
      .operands = Float(),
      .attrs = {{"approximate", std::string("none")}},
      .precision = Precision::kComputeInF32,
      .infer =
          [](const OpView& op) {
            const std::string& kind = op.Str("approximate");
            if (kind != kTanh && kind != "none") {
              Fail(ErrorCode::kInvalidArgument, op.Where(),
                   ": approximate is \"none\" or \"tanh\", not \"", kind, "\"");
            }
            return SameType(op);
          },
      .expand = [](Builder& b, const OpView& op) -> Values {
        const Value x = op.in(0);
        return {b.Mul(x, op.Str("approximate") == kTanh ? TanhShare(b, x) : ErfShare(b, x))};
      },
      .grad = InF32(GeluGrad),
      .flops =
          [](const OpView& op) { return 14.0 * static_cast<double>(op.type(0).NumElements()); },
      .samples = {"(f32[4,8])", "(bf16[3,5]) {approximate=\"tanh\"}",
                  "(f32[7]) {approximate=\"tanh\"}", "(f64[0])"},
  });
  // x * sigmoid(x). With s = sigmoid(x): dy/dx = s * (1 + x * (1 - s)).
  ops.Add({
      .name = "silu",
      .op_class = OpClass::kComposite,
      .operands = Float(),
      .precision = Precision::kComputeInF32,
      .infer = SameType,
      .expand = [](Builder& b, const OpView& op) -> Values {
        return {b.Mul(op.in(0), b.Sigmoid(op.in(0)))};
      },
      .grad = InF32([](Builder& b, const OpView& op, const Values& dy) -> Values {
        const Value x = op.in(0), s = b.Sigmoid(x);
        return {b.Mul(dy[0], b.Mul(s, b.Add(Rest(b, x, s), 1)))};
      }),
      .flops =
          [](const OpView& op) { return 11.0 * static_cast<double>(op.type(0).NumElements()); },
      .samples = Samples(),
  });
  // max(x, 0), NaN kept. The gradient is 0 at 0 and passes where x is NaN.
  ops.Add({
      .name = "relu",
      .op_class = OpClass::kComposite,
      .operands = Float(),
      .infer = SameType,
      .expand = [](Builder& b, const OpView& op) -> Values {
        return {b.Max2(op.in(0), b.ConstantLike(0, op.in(0)))};
      },
      // From y, so that x may die: y <= 0 just where x <= 0.
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        const Value y = op.out(0), zero = b.ConstantLike(0, y);
        return {b.Select(b.Le(y, zero), zero, dy[0])};
      },
      .samples = Samples(),
  });
  // log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)).
  ops.Add({
      .name = "softplus",
      .op_class = OpClass::kComposite,
      .operands = Float(),
      .precision = Precision::kComputeInF32,
      .infer = SameType,
      .expand = [](Builder& b, const OpView& op) -> Values {
        const Value x = op.in(0);
        return {b.Add(b.Max2(x, b.ConstantLike(0, x)),
                      b.Elementwise("log1p", {b.Exp(b.Neg(b.Abs(x)))}))};
      },
      .grad = InF32([](Builder& b, const OpView& op, const Values& dy) -> Values {
        return {b.Mul(dy[0], b.Sigmoid(op.in(0)))};
      }),
      .flops =
          [](const OpView& op) { return 23.0 * static_cast<double>(op.type(0).NumElements()); },
      .samples = Samples(),
  });
}

}  // namespace stator
