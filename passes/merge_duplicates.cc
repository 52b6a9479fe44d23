// merge-duplicates: nodes that compute the same from the same operands become one.
//
// Every op is a function of its operands and attributes, random ones included (their stream is an
// attribute), so equal means equal. Kept apart are
//   - forward, backward and update: merging would keep a forward value alive until the backward
//   pass
//     that is cheaper computed again, and would let mixed precision treat an update as forward;
//   - nodes of different f32 groups before mixed precision has settled what is rounded where;
//   - clones made on purpose, to save memory.
#include "ir/facts.h"
#include "passes/passes.h"

#include <map>
#include <string>
#include <tuple>

namespace stator {
namespace {

using Key = std::tuple<const OpDef*, std::vector<Value>, std::string, std::string, int64_t>;

struct KeyLess {
  bool operator()(const Key& a, const Key& b) const {
    const std::string &name_a = std::get<0>(a)->name, &name_b = std::get<0>(b)->name;
    if (name_a != name_b) return name_a < name_b;
    return std::tie(std::get<1>(a), std::get<2>(a), std::get<3>(a), std::get<4>(a)) <
           std::tie(std::get<1>(b), std::get<2>(b), std::get<3>(b), std::get<4>(b));
  }
};

Key KeyOf(const Node& n) {
  return {&n.op(),
          {n.operands().begin(), n.operands().end()},
          FormatAttrs(n.attrs()),
          n.StrFact(fact::kPhase),
          n.IntFact(fact::kF32Group, -1)};
}

}  // namespace

void MergeDuplicates(Graph& graph, const PassOptions&) {
  std::map<Key, Node*, KeyLess> seen;
  for (Node* n : graph.Nodes()) {
    if (n->HasFact(fact::kRecompute)) continue;
    const auto [it, first] = seen.emplace(KeyOf(*n), n);
    if (first) continue;
    for (int i = 0; i < n->num_results(); ++i) {
      graph.ReplaceAllUses(n->result(i), it->second->result(i));
    }
    graph.Erase(n);
  }
  graph.EraseDead();
}

}  // namespace stator
