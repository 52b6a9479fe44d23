// place-in-concat: a concat of one attention's results becomes the buffer that the attention writes
// into, each result through a window of its own, so that nothing is copied: the gradients of q, k
// and v side by side, as the projection's backward products want them.
//
// The mark is fact `joins` on the concat (ir/facts.h). Heads stay dense, so that every library that
// takes strided rows can write there. Results that anything else reads are left apart.
#include "ir/facts.h"
#include "ir/views.h"
#include "passes/passes.h"

#include <set>

namespace stator {
namespace {

bool CanWriteInto(Graph& graph, const Node& concat) {
  if (!concat.Is("concat") || IsViewNode(concat) || concat.type().NumElements() == 0) return false;
  const Node* call = concat.operand(0).node;
  if (call->op_class() != OpClass::kAttention ||
      concat.view().Axis("axis") == concat.type().rank() - 1)
    return false;
  std::set<int> results;
  for (const Value& v : concat.operands()) {
    // Each result once, and as it is: the call takes strides for tensors of heads only.
    if (v.node != call || !results.insert(v.index).second || v.type().rank() != 4) return false;
    int uses = 0;
    for (const Use& use : call->uses()) uses += use.node->operand(use.operand) == v;
    if (uses != 1 || graph.IsUsedOutside(v)) return false;
  }
  return true;
}

}  // namespace

void PlaceInConcat(Graph& graph, const PassOptions&) {
  for (Node* node : graph.Nodes()) {
    if (CanWriteInto(graph, *node)) node->SetFact(fact::kJoins, int64_t{0});
  }
}

}  // namespace stator
