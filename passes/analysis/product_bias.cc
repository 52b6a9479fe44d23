#include "passes/analysis/product_bias.h"

#include "ir/views.h"

namespace stator {

Use OnlyUseOf(Value v) {
  Use only{nullptr, 0};
  if (v.node->graph()->IsUsedOutside(v)) return only;
  for (const Use& use : v.node->uses()) {
    if (use.node->operand(use.operand) != v) continue;
    if (only.node != nullptr) return {nullptr, 0};
    only = use;
  }
  return only;
}

bool OnlyLibrariesRead(Value v, bool views_only) {
  bool any = false;
  for (const Use& use : v.node->uses()) {
    if (use.node->operand(use.operand) != v) continue;
    any = true;
    switch (use.node->op_class()) {
      case OpClass::kContraction:
      case OpClass::kAttention:
        break;
      case OpClass::kMovement:
        if (views_only && !IsViewNode(*use.node)) return false;
        if (!OnlyLibrariesRead(use.node->result(), views_only)) return false;
        break;
      default:
        return false;
    }
  }
  return any;
}

}  // namespace stator
