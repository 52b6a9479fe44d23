#include "passes/analysis/splat.h"

#include <bit>

namespace stator {

std::optional<double> SplatOf(Value v) {
  if (!v) return std::nullopt;
  const Node& n = *v.node;
  if (n.Is("constant")) return n.view().Float("value");
  if (n.op_class() != OpClass::kMovement) return std::nullopt;
  std::optional<double> common;
  const auto joins = [&common](double value) {
    if (!common) common = value;
    return std::bit_cast<int64_t>(*common) == std::bit_cast<int64_t>(value);  // -0 is not 0
  };
  for (const Value& operand : n.operands()) {
    const std::optional<double> value = SplatOf(operand);
    if (!value || !joins(*value)) return std::nullopt;
  }
  // Padding fills in elements of its own.
  if (n.op().FindAttr("value") != nullptr && !joins(n.view().Float("value"))) return std::nullopt;
  return common;
}

}  // namespace stator
