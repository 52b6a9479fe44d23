// limit-indices: leaves on every integer input the range its ids must lie in, so that the runtime
// checks them before they reach a device. The limit is the smallest that any use asks for; an
// `ignored` id passes when every limited use ignores it.
#include "ir/facts.h"
#include "passes/passes.h"

#include <algorithm>

namespace stator {
namespace {

struct Limit {
  int64_t below = 0;
  bool has_ignored = false;
  int64_t ignored = 0;
};

// Follows movement nodes, which pass ids on unchanged.
void Collect(Value ids, std::vector<Limit>* limits) {
  for (const Use& use : ids.node->uses()) {
    if (use.node->operand(use.operand) != ids) continue;
    if (use.node->op_class() == OpClass::kMovement) {
      Collect(use.node->result(), limits);
      continue;
    }
    const OpDef& op = use.node->op();
    if (op.operands.empty()) continue;
    const size_t k = std::min<size_t>(use.operand, op.operands.size() - 1);
    const OperandDef& operand = op.operands[k];
    if (operand.domain != Domain::kIndex) continue;
    Limit limit{IndexLimit(use.node->view(), use.operand)};
    if (!operand.ignore_attr.empty()) {
      limit.has_ignored = true;
      limit.ignored = use.node->view().Int(operand.ignore_attr);
    }
    limits->push_back(limit);
  }
}

}  // namespace

void LimitIndices(Graph& graph, const PassOptions&) {
  for (const Param& p : graph.inputs()) {
    if (!IsInteger(p.node->type().dtype)) continue;
    std::vector<Limit> limits;
    Collect(p.node->result(), &limits);
    if (limits.empty()) continue;
    Limit all = limits[0];
    for (const Limit& l : limits) {
      all.below = std::min(all.below, l.below);
      all.has_ignored = all.has_ignored && l.has_ignored && l.ignored == all.ignored;
    }
    p.node->SetFact(fact::kBelow, all.below);
    if (all.has_ignored) p.node->SetFact(fact::kIgnored, all.ignored);
  }
}

}  // namespace stator
