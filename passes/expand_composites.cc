// expand-composites: replaces every composite op by its definition in simpler ops, until none is
// left. Attention stays where the target has it as one op, and is expanded where it has not. What
// a composite's node knows of itself (phase, f32 group, scope) its parts know too.
#include "ir/base/error.h"
#include "ir/expand.h"
#include "passes/analysis/attention_query.h"
#include "passes/passes.h"

namespace stator {
namespace {

bool MustExpand(const Node& n, const PassOptions& options) {
  if (n.op_class() == OpClass::kComposite) return true;
  if (n.op_class() != OpClass::kAttention || !n.op().expand) return false;
  if (options.target == nullptr || options.target->kind() == DeviceKind::kCpu) return false;
  std::string why;
  return !options.target->SupportsAttention(QueryOf(n, options), &why);
}

}  // namespace

void ExpandComposites(Graph& graph, const PassOptions& options) {
  for (Node* n = graph.first(); n != nullptr;) {
    if (!MustExpand(*n, options)) {
      n = n->next();
      continue;
    }
    Node* before = n->prev();
    Builder b(graph, n);
    b.default_facts() = n->facts();
    const Values results = ExpandNode(b, *n);
    for (int i = 0; i < n->num_results(); ++i) graph.ReplaceAllUses(n->result(i), results[i]);
    graph.Erase(n);
    n = before == nullptr ? graph.first() : before->next();  // the expansion may hold composites
  }
  graph.EraseDead();
}

}  // namespace stator
