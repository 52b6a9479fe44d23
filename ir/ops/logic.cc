// Comparisons, logic, choice and conversion. Comparisons are IEEE's: NaN is unequal to everything.
#include "ir/ops/helpers.h"
#include "ir/ops/ops.h"

#include <cmath>
#include <limits>

namespace stator {
namespace {

Types InferComparison(const OpView& op) {
  if (op.type(0) != op.type(1)) {
    BadOperands(op, "operand types differ", op.type(0), op.type(1));
  }
  return {{DType::kBool, op.type(0).shape}};
}

// Float to integer: towards zero; what does not fit saturates, NaN gives 0.
int64_t Truncate(double v, DType to) {
  if (std::isnan(v)) return 0;
  int64_t lowest = 0, highest = 0;
  switch (to) {
    case DType::kI64:
      lowest = std::numeric_limits<int64_t>::min(), highest = std::numeric_limits<int64_t>::max();
      break;
    case DType::kI32:
      lowest = std::numeric_limits<int32_t>::min(), highest = std::numeric_limits<int32_t>::max();
      break;
    default:
      highest = WrapInteger(to, -1);
  }
  if (v <= static_cast<double>(lowest)) return lowest;
  if (v >= static_cast<double>(highest)) return highest;
  return static_cast<int64_t>(v);
}

void CastReference(const OpView&, Operands in, Results out) {
  const DType to = out[0].type.dtype;
  const bool from_float = IsFloat(in[0]->type.dtype);
  for (int64_t k = 0; k < out[0].size(); ++k) {
    if (from_float && IsInteger(to)) {
      out[0].SetInt(k, Truncate(in[0]->f[k], to));
    } else if (from_float) {
      out[0].Set(k, in[0]->f[k]);
    } else if (to == DType::kF64 || !IsFloat(to)) {
      out[0].SetInt(k, in[0]->i[k]);
    } else {  // the narrow floats by way of f32, as compiled code does
      out[0].Set(k, static_cast<double>(static_cast<float>(in[0]->i[k])));
    }
  }
}

void ExpectDtype(const OpView& op, int i, DType dtype) {
  if (op.type(i).dtype == dtype) return;
  BadOperand(op, StrCat(op.def().operands[i].name, " is not ", Name(dtype)), op.type(i));
}

OpDef Comparison(const char* name, const char* scalar, Reference reference) {
  return {
      .name = name,
      .operands = {{"a"}, {"b"}},
      .infer = InferComparison,
      .scalar = scalar,
      .reference = std::move(reference),
      .samples = {"(f32[4,8], f32[4,8])", "(bf16[3,5], bf16[3,5])", "(i32[7], i32[7])",
                  "(bool[9], bool[9])", "(f64[0], f64[0])"},
  };
}

// An f32 kept as two (ir/dtype.h: HighHalf): master weights of which a part is what bf16 computes
// with. join_halves(high_half(x), low_half(x)) is x, but for a NaN's payload.
void AddHalves(OpRegistry& ops) {
  const auto infer_half = [](DType dtype) {
    return [dtype](const OpView& op) {
      ExpectDtype(op, 0, DType::kF32);
      return Types{{dtype, op.type(0).shape}};
    };
  };
  // The nearest bf16, ties away from zero: after st_untie there are no ties, and rounding does the
  // rest.
  ops.Add({
      .name = "high_half",
      .operands = {{"x", TypeSet::kAnyFloat}},
      .infer = infer_half(DType::kBF16),
      .scalar = "st_untie(x)",
      .reference = Unary([](auto x) {
        return static_cast<double>(BitsToFloat16(DType::kBF16, HighHalf(static_cast<float>(x))));
      }),
      .flops = NoFlops,
      .samples = {"(f32[4,8])", "(f32[0])"},
  });
  // The low 16 bits; 0 of NaN.
  ops.Add({
      .name = "low_half",
      .operands = {{"x", TypeSet::kAnyFloat}},
      .infer = infer_half(DType::kU16),
      .scalar = "st_low_half(x)",
      .reference =
          [](const OpView&, Operands in, Results out) {
            for (int64_t k = 0; k < out[0].size(); ++k) {
              out[0].SetInt(k, LowHalf(static_cast<float>(in[0]->f[k])));
            }
          },
      .flops = NoFlops,
      .samples = {"(f32[4,8])", "(f32[0])"},
  });
  ops.Add({
      .name = "join_halves",
      .operands = {{"high", TypeSet::kAnyFloat}, {"low", TypeSet::kAnyInteger}},
      .infer =
          [](const OpView& op) {
            ExpectDtype(op, 0, DType::kBF16);
            ExpectDtype(op, 1, DType::kU16);
            if (op.type(0).shape != op.type(1).shape) {
              BadOperands(op, "halves differ in shape", op.type(0), op.type(1));
            }
            return Types{{DType::kF32, op.type(0).shape}};
          },
      .scalar = "st_join_halves(high, low)",
      .reference =
          [](const OpView&, Operands in, Results out) {
            for (int64_t k = 0; k < out[0].size(); ++k) {
              const auto high = FloatToBits16(DType::kBF16, static_cast<float>(in[0]->f[k]));
              out[0].Set(k, JoinHalves(high, static_cast<uint16_t>(in[1]->i[k])));
            }
          },
      .flops = NoFlops,
      .samples = {"(bf16[4,8], u16[4,8])", "(bf16[0], u16[0])"},
  });
}

}  // namespace

void AddLogicOps(OpRegistry& ops) {
  ops.Add(Comparison("equal", "a == b", Binary([](auto a, auto b) { return a == b; })));
  ops.Add(Comparison("not_equal", "a != b", Binary([](auto a, auto b) { return a != b; })));
  ops.Add(Comparison("less", "a < b", Binary([](auto a, auto b) { return a < b; })));
  ops.Add(Comparison("less_equal", "a <= b", Binary([](auto a, auto b) { return a <= b; })));

  const std::vector<OperandDef> masks = {{"a", TypeSet::kBoolOnly}, {"b", TypeSet::kBoolOnly}};
  ops.Add({
      .name = "logical_and",
      .operands = masks,
      .scalar = "a && b",
      .reference = Binary([](auto a, auto b) { return a != 0 && b != 0; }),
      .samples = {"(bool[4,8], bool[4,8])", "(bool[], bool[])"},
  });
  ops.Add({
      .name = "logical_or",
      .operands = masks,
      .scalar = "a || b",
      .reference = Binary([](auto a, auto b) { return a != 0 || b != 0; }),
      .samples = {"(bool[4,8], bool[4,8])"},
  });
  ops.Add({
      .name = "logical_not",
      .operands = {{"x", TypeSet::kBoolOnly}},
      .scalar = "!x",
      .reference = Unary([](auto x) { return x == 0; }),
      .samples = {"(bool[4,8])", "(bool[0])"},
  });
  // cond ? a : b. The branch not taken gives no gradient, whatever its value.
  ops.Add({
      .name = "select",
      .operands = {{"cond", TypeSet::kBoolOnly}, {"a"}, {"b"}},
      .infer =
          [](const OpView& op) {
            if (op.type(1) != op.type(2))
              BadOperands(op, "branches differ", op.type(1), op.type(2));
            if (op.type(0).shape != op.type(1).shape) {
              BadOperands(op, "condition and branches differ in shape", op.type(0), op.type(1));
            }
            return Types{op.type(1)};
          },
      .scalar = "cond ? a : b",
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        const Value zero = b.ConstantLike(0, dy[0]);
        return {Value{}, b.Select(op.in(0), dy[0], zero), b.Select(op.in(0), zero, dy[0])};
      },
      .reference =
          [](const OpView&, Operands in, Results out) {
            for (int64_t k = 0; k < out[0].size(); ++k) {
              CopyElement(in[0]->i[k] ? *in[1] : *in[2], k, out[0], k);
            }
          },
      .samples = {"(bool[4,8], f32[4,8], f32[4,8])", "(bool[3,5], bf16[3,5], bf16[3,5])",
                  "(bool[7], i32[7], i32[7])"},
  });
  // To a float: rounds to nearest even (overflow: infinity; f8e4m3, which has none: NaN), integers
  // to narrow floats by way of f32. Float to integer: truncates, saturates, NaN gives 0. Integer to
  // integer: wraps. To bool: not equal to 0, so NaN is true.
  ops.Add({
      .name = "cast",
      .operands = {{"x"}},
      .attrs = {{"to", DType::kF32, true}},
      .infer =
          [](const OpView& op) {
            return Types{{op.Dtype("to"), op.type(0).shape}};
          },
      .scalar = "x",
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        if (!IsFloat(op.type(0).dtype)) return {Value{}};
        return {b.Cast(dy[0], op.type(0).dtype)};
      },
      .reference = CastReference,
      .flops = NoFlops,
      .samples = {"(f32[4,8]) {to=bf16}", "(bf16[4]) {to=f32}", "(f32[5]) {to=i32}",
                  "(i32[5]) {to=f32}", "(f32[3,5]) {to=f16}", "(f32[9]) {to=f8e4m3}",
                  "(f32[9]) {to=f8e5m2}", "(f8e4m3[9]) {to=f32}", "(f64[6]) {to=f32}",
                  "(bool[7]) {to=f32}", "(f32[7]) {to=bool}", "(i64[7]) {to=u8}",
                  "(f32[0]) {to=bf16}"},
  });
  AddHalves(ops);
}

}  // namespace stator
