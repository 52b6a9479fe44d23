// canonicalize: one spelling of a thing, by small rules applied until none does, and no dead code.
// Every rule keeps every bit of the result, signs of zeros and NaNs included.
#include "ir/facts.h"
#include "passes/canonicalize_rules.h"
#include "passes/passes.h"

namespace stator {
namespace {

// The first rule that applies gives the replacement.
Value Simplified(Graph& graph, Node& n) {
  if (n.num_results() != 1) return {};
  Builder b(graph, &n);
  b.SetScope(n.scope());
  b.default_facts() = n.facts();
  for (const auto* rules : {&AlgebraRules(), &ArrangementRules()}) {
    for (const Rule& rule : *rules) {
      const Value v = rule.apply(b, n);
      if (v && v.type() == n.type()) return v;
    }
  }
  return {};
}

}  // namespace

void Canonicalize(Graph& graph, const PassOptions&) {
  graph.EraseDead();
  // One sweep in order sees operands in their final form; a rewrite may enable another one at the
  // node's users only, which come later, or at the node it made, which is looked at again.
  for (Node* n = graph.first(); n != nullptr;) {
    Node* const before = n->prev();
    const Value v = Simplified(graph, *n);
    if (!v) {
      n = n->next();
      continue;
    }
    graph.ReplaceAllUses(n->result(), v);
    graph.Erase(n);
    n = before == nullptr ? graph.first() : before->next();
  }
  graph.EraseDead();
}

}  // namespace stator
