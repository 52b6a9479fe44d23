// merge-loss-head: a gradient op that comes by its forward op's results on the way (`also_computes`
// of its record) gives them, and the forward op goes: a loss head's logits are then computed once,
// and turn into their gradient while they are there.
//
// Legal where the gradient op needs nothing that depends on the forward op's results; that of a
// mean does not: its cotangent is 1 / count. What the gradient op needs besides moves up with it to
// the forward op's place. Where the cotangent depends on the loss, both ops stay.
#include "passes/passes.h"

#include <map>
#include <set>
#include <vector>

namespace stator {
namespace {

class Merger {
 public:
  explicit Merger(Graph& graph) : graph_(graph) {}

  void Run() {
    for (Node* n : graph_.Nodes()) {
      if (n->op().also_computes.empty()) continue;
      if (Node* forward = ForwardOf(*n)) TryMerge(forward, n);
    }
  }

 private:
  // The node that `gradient` differentiates.
  static Node* ForwardOf(const Node& gradient) {
    for (const Use& use : gradient.operand(0).node->uses()) {
      Node& n = *use.node;
      if (use.operand != 0 || !n.Is(gradient.op().also_computes)) continue;
      bool same = FormatAttrs(n.attrs()) == FormatAttrs(gradient.attrs());
      for (int i = 0; i < n.num_operands(); ++i) {
        same = same && n.operand(i) == gradient.operand(i);
      }
      if (same) return &n;
    }
    return nullptr;
  }

  void TryMerge(Node* forward, Node* gradient) {
    // What `gradient` needs of the nodes from `forward` on.
    std::map<int, int> place;
    for (Node* n : graph_.Nodes()) place.emplace(n->id(), static_cast<int>(place.size()));
    const int from = place.at(forward->id());
    std::map<int, Node*> needed;  // by place
    std::vector<Node*> pending = {gradient};
    while (!pending.empty()) {
      Node* n = pending.back();
      pending.pop_back();
      const auto at = place.find(n->id());
      if (at == place.end() || at->second < from) continue;
      if (n == forward) return;
      if (!needed.emplace(at->second, n).second) continue;
      for (const Value& v : n->operands()) {
        if (v) pending.push_back(v.node);
      }
    }
    for (const auto& [at, node] : needed) graph_.MoveBefore(node, forward);
    for (int i = 0; i < forward->num_results(); ++i) {
      graph_.ReplaceAllUses(forward->result(i), gradient->result(i));
    }
    graph_.Erase(forward);
  }

  Graph& graph_;
};

}  // namespace

void MergeLossHead(Graph& graph, const PassOptions&) { Merger(graph).Run(); }

}  // namespace stator
