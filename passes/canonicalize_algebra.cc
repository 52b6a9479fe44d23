// Arithmetic that does nothing. Named ops and their neutral elements are the subject matter here,
// so this is the one place where a pass names ops.
#include "passes/analysis/splat.h"
#include "passes/canonicalize_rules.h"

#include <cmath>

namespace stator {
namespace {

bool IsSplat(Value v, double value) {
  const auto splat = SplatOf(v);
  return splat && *splat == value && std::signbit(*splat) == std::signbit(value);
}

// x * 1, 1 * x, x / 1.
Value TimesOne(Builder&, const Node& n) {
  if (n.Is("mul") && IsSplat(n.operand(0), 1)) return n.operand(1);
  if ((n.Is("mul") || n.Is("div")) && IsSplat(n.operand(1), 1)) return n.operand(0);
  return {};
}

// x + 0 and x - 0. For floats x + (-0) and x - (+0) only: -0 + 0 is +0.
Value PlusZero(Builder&, const Node& n) {
  if (!n.Is("add") && !n.Is("sub")) return {};
  const double zero = IsFloat(n.type().dtype) && n.Is("add") ? -0.0 : 0.0;
  if (IsSplat(n.operand(1), zero)) return n.operand(0);
  if (n.Is("add") && IsSplat(n.operand(0), zero)) return n.operand(1);
  return {};
}

// neg(neg(x)), not(not(x)).
Value Twice(Builder&, const Node& n) {
  if (!n.Is("neg") && !n.Is("logical_not")) return {};
  const Node& inner = *n.operand(0).node;
  return &inner.op() == &n.op() ? inner.operand(0) : Value{};
}

// Of bools: x and true, x or false; the absorbing ones are constants.
Value LogicWithConstant(Builder&, const Node& n) {
  if (!n.Is("logical_and") && !n.Is("logical_or")) return {};
  const double neutral = n.Is("logical_and") ? 1 : 0;
  for (int i = 0; i < 2; ++i) {
    const auto splat = SplatOf(n.operand(i));
    if (splat) return n.operand(*splat == neutral ? 1 - i : i);
  }
  return n.operand(0) == n.operand(1) ? n.operand(0) : Value{};
}

// select(true, a, b), select(c, a, a).
Value KnownChoice(Builder&, const Node& n) {
  if (!n.Is("select")) return {};
  if (n.operand(1) == n.operand(2)) return n.operand(1);
  const auto condition = SplatOf(n.operand(0));
  if (!condition) return {};
  return n.operand(*condition != 0 ? 1 : 2);
}

// Whether every value of `from` is also one of `to`.
bool Widens(DType from, DType to) {
  if (from == to || from == DType::kBool) return true;
  if (to == DType::kBool) return false;
  // Bits of the significand (floats), of the magnitude (integers).
  const auto digits = [](DType d) {
    switch (d) {
      case DType::kF64:
        return 53;
      case DType::kF32:
        return 24;
      case DType::kF16:
        return 11;
      case DType::kBF16:
        return 8;
      case DType::kF8E4M3:
        return 4;
      case DType::kF8E5M2:
        return 3;
      case DType::kI64:
        return 63;
      case DType::kI32:
        return 31;
      case DType::kU32:
        return 32;
      case DType::kU16:
        return 16;
      case DType::kU8:
        return 8;
      case DType::kBool:
        return 1;
    }
    return 0;
  };
  if (IsFloat(from)) {
    if (!IsFloat(to) || digits(from) > digits(to)) return false;
    if (from == DType::kBF16) return to != DType::kF16;  // the exponent has to fit too
    // f8e4m3 has no infinity, and its NaN becomes one of `to`.
    return to == DType::kF64 || to == DType::kF32 || to == DType::kBF16 || to == DType::kF16;
  }
  if (IsSigned(from) && !IsFloat(to) && !IsSigned(to)) return false;
  // f16 holds every integer up to 2^11 and u8 alone is below that; the others have range enough.
  return digits(from) <= digits(to);
}

// cast to its own dtype; cast(cast(x, wider), to) = cast(x, to). Narrow, then widen rounds: it
// stays.
Value CastChain(Builder& b, const Node& n) {
  if (!n.Is("cast")) return {};
  const Value x = n.operand(0);
  if (x.dtype() == n.type().dtype) return x;
  if (!x.node->Is("cast")) return {};
  const Value origin = x.node->operand(0);
  if (!Widens(origin.dtype(), x.dtype())) return {};
  return b.Cast(origin, n.type().dtype);
}

}  // namespace

const std::vector<Rule>& AlgebraRules() {
  static const std::vector<Rule> kRules = {
      {"x * 1 -> x", TimesOne},
      {"x + 0 -> x", PlusZero},
      {"neg(neg(x)) -> x", Twice},
      {"x and true -> x", LogicWithConstant},
      {"select(true, a, b) -> a", KnownChoice},
      {"cast(cast(x, wider), t) -> cast(x, t)", CastChain},
  };
  return kRules;
}

}  // namespace stator
