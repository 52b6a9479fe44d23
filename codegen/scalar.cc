#include "codegen/scalar.h"

#include "ir/base/error.h"
#include "ir/region.h"

#include <cctype>
#include <cmath>

namespace stator {

std::string ComputeCType(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "double";
    case DType::kI64:
      return "long long";
    case DType::kI32:
      return "int";
    case DType::kU32:
      return "unsigned";
    case DType::kU16:
      return "unsigned short";
    case DType::kU8:
      return "unsigned char";
    case DType::kBool:
      return "bool";
    default:
      return "float";
  }
}

std::string StorageCType(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return "st_bf16";
    case DType::kF16:
      return "st_f16";
    case DType::kF8E4M3:
      return "st_e4m3";
    case DType::kF8E5M2:
      return "st_e5m2";
    case DType::kBool:
      return "unsigned char";
    default:
      return ComputeCType(dtype);
  }
}

std::string Literal(double v, DType dtype) {
  if (dtype == DType::kBool) return v != 0 ? "true" : "false";
  if (!IsFloat(dtype)) {
    const auto i = WrapInteger(dtype, static_cast<int64_t>(v));
    if (dtype == DType::kU32) return StrCat(i, "u");
    if (dtype == DType::kI64) return StrCat(i, "ll");
    if (dtype == DType::kI32 && i == INT32_MIN) return "(-2147483647 - 1)";
    return StrCat("(", ComputeCType(dtype), ")", i);
  }
  const std::string type = ComputeCType(dtype);
  if (std::isinf(v)) return StrCat("(", v < 0 ? "-" : "", "(", type, ")st_infinity)");
  if (std::isnan(v)) return StrCat("((", type, ")(st_infinity - st_infinity))");
  const double rounded = RoundFloat(dtype == DType::kF64 ? DType::kF64 : DType::kF32, v);
  std::string text = FormatDouble(rounded);
  if (dtype != DType::kF64) text += 'f';
  return std::signbit(v) ? StrCat("(", text, ")") : text;
}

std::string ConvertText(const std::string& text, DType from, DType to) {
  const std::string type = ComputeCType(to);
  if (to == DType::kBool) return from == DType::kBool ? text : StrCat("((", text, ") != 0)");
  if (IsFloat(to)) {
    std::string value = text;
    // f64 to a narrow float rounds once: double to bf16 by way of f32 would round twice, which op
    // `cast` does not; the helpers take the f32 path only from f32.
    if (ComputeCType(from) != type) value = StrCat("(", type, ")(", text, ")");
    if (to == DType::kF64 || to == DType::kF32) return value;
    if (from == to) return value;
    return StrCat("st_round(", value, ", ", StorageCType(to), "())");
  }
  if (IsFloat(from)) {
    switch (to) {
      case DType::kI32:
        return StrCat("st_to_int(", text, ")");
      case DType::kI64:
        return StrCat("st_to_long(", text, ")");
      case DType::kU32:
        return StrCat("st_to_unsigned(", text, ", 4294967295u)");
      case DType::kU16:
        return StrCat("(unsigned short)st_to_unsigned(", text, ", 65535u)");
      default:
        return StrCat("(unsigned char)st_to_unsigned(", text, ", 255u)");
    }
  }
  return ComputeCType(from) == type ? text : StrCat("(", type, ")(", text, ")");
}

namespace {

std::string AttrText(const Node& node, const std::string& name, DType dtype) {
  const Attr& attr = node.view().attr(name);
  if (const auto* d = std::get_if<double>(&attr)) return Literal(*d, dtype);
  if (const auto* i = std::get_if<int64_t>(&attr)) return StrCat(*i);
  if (const auto* b = std::get_if<bool>(&attr)) return *b ? "true" : "false";
  STATOR_CHECK(false, node.op().name, ": attribute ", name, " is not a scalar");
  return "";
}

// The dtype arithmetic happens in: of the first operand that is not bool (select's condition is).
DType ArithmeticType(const Node& node) {
  for (const Value& v : node.operands()) {
    if (v.dtype() != DType::kBool) return v.dtype();
  }
  return node.operand(0).dtype();
}

}  // namespace

std::string ScalarText(const Node& node, const std::vector<std::string>& operands) {
  const std::string& scalar = node.op().scalar;
  const DType arithmetic = ArithmeticType(node);
  std::string out;
  for (size_t i = 0; i < scalar.size();) {
    const char c = scalar[i];
    const bool attr = c == '$';
    if (!attr && !std::isalpha(static_cast<unsigned char>(c)) && c != '_') {
      // A number's suffix or exponent is not a name.
      if (std::isdigit(static_cast<unsigned char>(c))) {
        while (i < scalar.size() &&
               (std::isalnum(static_cast<unsigned char>(scalar[i])) || scalar[i] == '.')) {
          out += scalar[i++];
        }
        continue;
      }
      out += c;
      ++i;
      continue;
    }
    size_t end = i + 1;
    while (end < scalar.size() &&
           (std::isalnum(static_cast<unsigned char>(scalar[end])) || scalar[end] == '_')) {
      ++end;
    }
    const std::string name = scalar.substr(attr ? i + 1 : i, end - i - (attr ? 1 : 0));
    i = end;
    if (attr) {
      out += AttrText(node, name, arithmetic);
    } else if (name == "T") {
      out += ComputeCType(arithmetic);
    } else if (const int k = node.op().FindOperand(name); k >= 0) {
      out += operands[k];
    } else {
      out += name;
    }
  }
  const DType result = node.type().dtype;
  // Comparisons, select and casts: the expression's own type follows its operands.
  const bool comparison = result == DType::kBool && arithmetic != DType::kBool;
  if (node.Is("cast")) return ConvertText(operands[0], node.operand(0).dtype(), result);
  if (comparison) return StrCat("(", out, ")");
  if (IsFloat(result) && result != DType::kF64 && result != DType::kF32) {
    // A choice between rounded values is rounded already.
    if (node.Is("select")) return StrCat("(", out, ")");
    return StrCat("st_round(", out, ", ", StorageCType(result), "())");
  }
  if (IsInteger(result)) return StrCat("(", ComputeCType(result), ")(", out, ")");
  return StrCat("(", out, ")");
}

bool IsExpensive(const Node& node) {
  return node.op_class() == OpClass::kRandom || CallsFunction(node);
}

}  // namespace stator
