#include "ir/op_def.h"

#include "ir/base/error.h"
#include "ir/graph.h"

namespace stator {

const Type& Value::type() const { return node->type(index); }

bool operator<(const Value& a, const Value& b) {
  const int ia = a.node ? a.node->id() : -1, ib = b.node ? b.node->id() : -1;
  return ia != ib ? ia < ib : a.index < b.index;
}

std::string_view Name(OpClass op_class) {
  static constexpr std::string_view kNames[] = {
      "source",   "elementwise", "reduce",      "scan",      "movement",    "gather",
      "scatter",  "sort",        "contraction", "attention", "convolution", "random",
      "quantize", "collective",  "loop",        "composite", "custom"};
  return kNames[static_cast<int>(op_class)];
}

bool Contains(TypeSet set, DType dtype) {
  switch (set) {
    case TypeSet::kAny:
      return true;
    case TypeSet::kAnyFloat:
      return IsFloat(dtype);
    case TypeSet::kAnyInteger:
      return IsInteger(dtype);
    case TypeSet::kAnyNumber:
      return dtype != DType::kBool;
    case TypeSet::kBoolOnly:
      return dtype == DType::kBool;
    case TypeSet::kIndex:
      return dtype == DType::kI32 || dtype == DType::kI64;
  }
  return false;
}

std::string_view Name(TypeSet set) {
  static constexpr std::string_view kNames[] = {"any type", "a float", "an integer",
                                                "a number", "bool",    "i32 or i64"};
  return kNames[static_cast<int>(set)];
}

Value OpView::out(int i) const {
  STATOR_CHECK(node_ != nullptr, def_->name, ": results asked for before the node exists");
  return const_cast<Node*>(node_)->result(i);
}

const Type& OpView::out_type(int i) const { return out(i).type(); }

const Attr& OpView::attr(std::string_view name) const {
  const auto it = attrs_->find(name);
  STATOR_CHECK(it != attrs_->end(), def_->name, " has no attribute ", name);
  return it->second;
}

int OpView::Axis(std::string_view name, int operand) const {
  return NormalizeAxis(Int(name), type(operand).rank(), Where());
}

std::string OpView::Where() const {
  if (node_ == nullptr || node_->scope().empty()) return def_->name;
  return StrCat(def_->name, " (", node_->scope(), ")");
}

int64_t IndexLimit(const OpView& op, int i) {
  const OperandDef& o = op.def().operands[i];
  if (!o.limit_attr.empty()) return op.Int(o.limit_attr);
  const int axis =
      o.limit_axis_attr.empty() ? o.limit_axis : static_cast<int>(op.Int(o.limit_axis_attr));
  return op.type(o.limit_operand).dim(axis);
}

std::optional<int64_t> IgnoredIndex(const OpView& op, int i) {
  const std::string& attr = op.def().operands[i].ignore_attr;
  if (attr.empty()) return std::nullopt;
  return op.Int(attr);
}

int OpDef::FindOperand(std::string_view operand) const {
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].name == operand) return static_cast<int>(i);
  }
  return -1;
}

const AttrDef* OpDef::FindAttr(std::string_view attr) const {
  for (const AttrDef& a : attrs) {
    if (a.name == attr) return &a;
  }
  return nullptr;
}

}  // namespace stator
