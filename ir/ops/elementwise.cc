// Elementwise arithmetic. Operands have equal types; Builder broadcasts.
//
// The portable scalar language. An op's `scalar` is one expression, valid as C++ and as CUDA C++,
// over the operand names, literals, `T` (the compute type of the operands: double for f64, float
// for the other floats, the dtype's own type for integers, bool), `$attr` (an attribute's value as
// a literal: inf, nan and -0 included), the operators + - * < <= == != ?: && || ! and parentheses,
// and calls of the helpers below. Its value is converted to the result's dtype as op `cast` says,
// once. `T(expr)` converts to the compute type. Signed integers wrap: the C++ emitter compiles with
// -fwrapv. No contraction: a*b+c rounds twice.
//
// Helpers, on T = float and double unless said otherwise; exact means correctly rounded.
//   st_max(a,b) st_min(a,b)  all numbers. The first NaN among a, b; else a > b ? a : b (a < b ? a :
//   b) st_div(a,b)              all numbers. Floats: a / b, exact. Integers: towards zero; x / 0 =
//   0 and
//                            lowest / -1 = lowest
//   st_abs(x)                signed numbers; abs(lowest) = lowest; clears a float's sign, of NaN
//   too st_fma(a,b,c)            a*b+c rounded once, exact st_sqrt(x)               exact;
//   st_sqrt(-0) = -0, NaN below 0 st_rsqrt(x)              T(1) / st_sqrt(x), both exact
//   st_floor(x)              exact; keeps -0, infinities and NaN
//   st_exp st_log st_log1p st_tanh st_erf st_sin st_cos st_pow st_exp_sub st_sigmoid
//                            C's functions with C's special values, to a few units in the last
//                            place; st_exp_sub(a,b) = exp(a-b) and st_sigmoid by a fast
//                            exponential on a GPU (docs/ir.md)
//   st_is_finite(x)          bool: neither NaN nor infinite
//   st_untie(x)              f32: x, or, halfway between two bf16, a larger magnitude: rounding to
//                            bf16 then takes ties away from zero
//   st_low_half(x) st_join_halves(h,l)
//                            f32 to u16; f32 (of bf16) and u16 to f32: LowHalf, JoinHalves of
//                            ir/dtype.h
#include "ir/ops/helpers.h"
#include "ir/ops/ops.h"

#include <cmath>

namespace stator {
namespace {

// Two's complement wrap-around without undefined behaviour, and plain arithmetic for floats.
double Plus(double a, double b) { return a + b; }
double Minus(double a, double b) { return a - b; }
double Times(double a, double b) { return a * b; }
double Divide(double a, double b) { return a / b; }
int64_t Plus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t Minus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t Times(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
int64_t Divide(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? Minus(0, a) : a / b; }

template <typename T>
T Larger(T a, T b) {
  return a != a ? a : b != b ? b : a > b ? a : b;
}
template <typename T>
T Smaller(T a, T b) {
  return a != a ? a : b != b ? b : a < b ? a : b;
}

std::vector<OperandDef> Pair() { return {{"a", TypeSet::kAnyNumber}, {"b", TypeSet::kAnyNumber}}; }
std::vector<OperandDef> Number() { return {{"x", TypeSet::kAnyNumber}}; }

// dy where `loses` is false and halved where `ties` is true: the subgradient of max and min. Where
// an operand is NaN neither holds, so that the cotangent reaches it whole.
Value Winner(Builder& b, Value loses, Value ties, Value dy) {
  const Value share = b.Select(ties, b.Mul(dy, 0.5), dy);
  return b.Select(loses, b.ConstantLike(0, dy), share);
}

void AddSelections(OpRegistry& ops) {
  ops.Add({
      .name = "maximum",
      .operands = Pair(),
      .scalar = "st_max(a, b)",
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        const Value x = op.in(0), y = op.in(1), ties = b.Eq(x, y);
        return {Winner(b, b.Lt(x, y), ties, dy[0]), Winner(b, b.Lt(y, x), ties, dy[0])};
      },
      .reference = Binary([](auto a, auto b) { return Larger(a, b); }),
      .samples = {"(f32[4,8], f32[4,8])", "(bf16[3,5], bf16[3,5])", "(i32[7], i32[7])"},
  });
  ops.Add({
      .name = "minimum",
      .operands = Pair(),
      .scalar = "st_min(a, b)",
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        const Value x = op.in(0), y = op.in(1), ties = b.Eq(x, y);
        return {Winner(b, b.Lt(y, x), ties, dy[0]), Winner(b, b.Lt(x, y), ties, dy[0])};
      },
      .reference = Binary([](auto a, auto b) { return Smaller(a, b); }),
      .samples = {"(f32[4,8], f32[4,8])", "(f16[3,5], f16[3,5])", "(u32[7], u32[7])"},
  });
  // Bounds are rounded to the compute type. NaN stays NaN.
  ops.Add({
      .name = "clamp",
      .operands = {{"x", TypeSet::kAnyFloat}},
      .attrs = {{"min", -HUGE_VAL}, {"max", HUGE_VAL}},
      .infer =
          [](const OpView& op) {
            if (!(op.Float("min") <= op.Float("max"))) {
              Fail(ErrorCode::kInvalidArgument, op.Where(), ": min ", op.Float("min"),
                   " is not below max ", op.Float("max"));
            }
            return Types{op.type(0)};
          },
      .scalar = "x < T($min) ? T($min) : T($max) < x ? T($max) : x",
      // Passes inside the bounds, both ends included, and for NaN.
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        const Value x = op.in(0);
        const Value out = b.Or(b.Lt(x, b.Constant(op.Float("min"), x.dtype())),
                               b.Gt(x, b.Constant(op.Float("max"), x.dtype())));
        return {b.Select(out, b.ConstantLike(0, dy[0]), dy[0])};
      },
      .reference =
          [](const OpView& op, Operands in, Results out) {
            const DType t = ComputeType(in[0]->type.dtype);
            const double lo = RoundFloat(t, op.Float("min")), hi = RoundFloat(t, op.Float("max"));
            for (int64_t k = 0; k < out[0].size(); ++k) {
              const double x = in[0]->f[k];
              out[0].Set(k, x < lo ? lo : hi < x ? hi : x);
            }
          },
      .samples = {"(f32[4,8]) {min=-0.5, max=0.5}", "(bf16[3,5]) {min=0}", "(f64[7]) {max=1}"},
  });
}

}  // namespace

void AddElementwiseOps(OpRegistry& ops) {
  ops.Add({
      .name = "add",
      .operands = Pair(),
      .scalar = "a + b",
      .grad =
          [](Builder&, const OpView&, const Values& dy) {
            return Values{dy[0], dy[0]};
          },
      .reference = Binary([](auto a, auto b) { return Plus(a, b); }),
      .samples = {"(f32[4,8], f32[4,8])", "(bf16[3,5], bf16[3,5])", "(i32[7], i32[7])",
                  "(f32[0,3], f32[0,3])", "(f64[], f64[])", "(u8[5], u8[5])"},
  });
  ops.Add({
      .name = "sub",
      .operands = Pair(),
      .scalar = "a - b",
      .grad = [](Builder& b, const OpView&, const Values& dy) -> Values {
        return {dy[0], b.Neg(dy[0])};
      },
      .reference = Binary([](auto a, auto b) { return Minus(a, b); }),
      .samples = {"(f32[4,8], f32[4,8])", "(bf16[3,5], bf16[3,5])", "(i64[7], i64[7])"},
  });
  ops.Add({
      .name = "mul",
      .operands = Pair(),
      .scalar = "a * b",
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        return {b.Mul(dy[0], op.in(1)), b.Mul(dy[0], op.in(0))};
      },
      .reference = Binary([](auto a, auto b) { return Times(a, b); }),
      .samples = {"(f32[4,8], f32[4,8])", "(bf16[3,5], bf16[3,5])", "(f16[3,1], f16[3,1])",
                  "(i32[7], i32[7])", "(u32[7], u32[7])"},
  });
  ops.Add({
      .name = "div",
      .operands = {{"a", TypeSet::kAnyNumber},
                   {.name = "b", .types = TypeSet::kAnyNumber, .domain = Domain::kNonZero}},
      .scalar = "st_div(a, b)",
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        const Value da = b.Div(dy[0], op.in(1));
        return {da, b.Neg(b.Mul(da, op.out(0)))};
      },
      .reference = Binary([](auto a, auto b) { return Divide(a, b); }),
      .samples = {"(f32[4,8], f32[4,8])", "(bf16[3,5], bf16[3,5])", "(i32[7], i32[7])",
                  "(u32[7], u32[7])"},
  });
  ops.Add({
      .name = "neg",
      .operands = Number(),
      .scalar = "-x",
      .grad = [](Builder& b, const OpView&, const Values& dy) -> Values { return {b.Neg(dy[0])}; },
      .reference = Unary([](auto x) {
        if constexpr (std::is_same_v<decltype(x), double>) return -x;
        return Minus(decltype(x){0}, x);
      }),
      .samples = {"(f32[4,8])", "(bf16[3,5])", "(i32[7])"},
  });
  // Its gradient is 0 at 0.
  ops.Add({
      .name = "abs",
      .operands = Number(),
      .scalar = "st_abs(x)",
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        return {b.Mul(dy[0], b.Elementwise("sign", {op.in(0)}))};
      },
      .reference = Unary([](auto x) {
        if constexpr (std::is_same_v<decltype(x), double>) return std::fabs(x);
        return x < 0 ? Minus(decltype(x){0}, x) : x;
      }),
      .samples = {"(f32[4,8])", "(bf16[3,5])", "(i32[7])"},
  });
  // -1, 0 or 1; keeps -0 and NaN. No gradient.
  ops.Add({
      .name = "sign",
      .operands = Number(),
      .scalar = "T(0) < x ? T(1) : x < T(0) ? T(-1) : x",
      .reference = Unary([](auto x) {
        return x > 0 ? decltype(x){1} : x < 0 ? decltype(x){-1} : x;
      }),
      .samples = {"(f32[4,8])", "(bf16[3,5])", "(i32[7])"},
  });
  // a*b + c rounded once.
  ops.Add({
      .name = "fma",
      .operands = {{"a", TypeSet::kAnyFloat}, {"b", TypeSet::kAnyFloat}, {"c", TypeSet::kAnyFloat}},
      .scalar = "st_fma(a, b, c)",
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        return {b.Mul(dy[0], op.in(1)), b.Mul(dy[0], op.in(0)), dy[0]};
      },
      .reference =
          [](const OpView&, Operands in, Results out) {
            const bool wide = in[0]->type.dtype == DType::kF64;
            for (int64_t k = 0; k < out[0].size(); ++k) {
              const double a = in[0]->f[k], b = in[1]->f[k], c = in[2]->f[k];
              out[0].Set(k, wide ? std::fma(a, b, c)
                                 : std::fma(static_cast<float>(a), static_cast<float>(b),
                                            static_cast<float>(c)));
            }
          },
      .flops = [](const OpView& op) { return 2.0 * static_cast<double>(op.type(0).NumElements()); },
      .samples = {"(f32[4,8], f32[4,8], f32[4,8])", "(bf16[3,5], bf16[3,5], bf16[3,5])"},
  });
  // C's pow. d/da = b * a^(b-1), 0 where b is 0; d/db = a^b log(a), 0 where a is 0 and b >= 0.
  ops.Add({
      .name = "pow",
      .operands = {{.name = "a", .types = TypeSet::kAnyFloat, .domain = Domain::kPositive},
                   {"b", TypeSet::kAnyFloat}},
      .scalar = "st_pow(a, b)",
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        const Value x = op.in(0), p = op.in(1), zero = b.ConstantLike(0, x);
        const Value slope = b.Mul(p, b.Pow(x, b.Sub(p, 1)));
        const Value flat = b.And(b.Eq(x, zero), b.Ge(p, zero));
        return {b.Select(b.Eq(p, zero), zero, b.Mul(dy[0], slope)),
                b.Select(flat, zero, b.Mul(dy[0], b.Mul(op.out(0), b.Log(x))))};
      },
      .reference = Binary(
          [](auto a, auto b) { return std::pow(static_cast<double>(a), static_cast<double>(b)); }),
      .flops =
          [](const OpView& op) { return 20.0 * static_cast<double>(op.type(0).NumElements()); },
      .samples = {"(f32[4,8], f32[4,8])", "(bf16[3,5], bf16[3,5])"},
  });
  AddSelections(ops);
}

}  // namespace stator
