// Activations. All but relu compute in f32.
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

// tanh(sqrt(2/pi) * (x + 0.044715 x^3)), the approximation of erf(x / sqrt(2)).
Value TanhCurve(Builder& b, Value x) {
  const Value cube = b.Mul(x, b.Mul(x, x));
  return b.Tanh(b.Mul(b.Add(x, b.Mul(cube, kCubic)), kSqrt2OverPi));
}

Value ErfCurve(Builder& b, Value x) { return b.Erf(b.Mul(x, 1 / std::numbers::sqrt2)); }

// y = x/2 * (1 + u(x)); dy/dx = (1 + u)/2 + x/2 * u'.
Values GeluGrad(Builder& b, const OpView& op, const Values& dy) {
  const Value x = op.in(0);
  Value u, slope;
  if (op.Str("approximate") == kTanh) {
    u = TanhCurve(b, x);
    const Value inner = b.Add(b.Mul(b.Mul(x, x), 3 * kCubic * kSqrt2OverPi), kSqrt2OverPi);
    slope = b.Mul(b.RSub(1, b.Mul(u, u)), inner);
  } else {
    u = ErfCurve(b, x);
    slope = b.Mul(b.Exp(b.Mul(b.Mul(x, x), -0.5)), kSqrt2OverPi);
  }
  const Value d = b.Add(b.Mul(b.Add(u, 1), 0.5), b.Mul(b.Mul(x, 0.5), slope));
  return {b.Mul(dy[0], d)};
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
        const Value u = op.Str("approximate") == kTanh ? TanhCurve(b, x) : ErfCurve(b, x);
        return {b.Mul(b.Mul(x, 0.5), b.Add(u, 1))};
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
        return {b.Mul(dy[0], b.Mul(s, b.Add(b.Mul(x, b.RSub(1, s)), 1)))};
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
