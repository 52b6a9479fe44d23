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

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_set>

namespace stator {
namespace {

// As the text form tells attributes apart: zeros by their sign, and no NaN from another.
bool SameAttr(const Attr& a, const Attr& b) {
  const double *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
  if (x == nullptr || y == nullptr) return a == b;
  return std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y) ||
         (std::isnan(*x) && std::isnan(*y));
}

bool SameAttrs(const AttrMap& a, const AttrMap& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && SameAttr(x.second, y.second);
  });
}

struct Same {
  bool operator()(const Node* a, const Node* b) const {
    return &a->op() == &b->op() &&
           std::equal(a->operands().begin(), a->operands().end(), b->operands().begin(),
                      b->operands().end()) &&
           SameAttrs(a->attrs(), b->attrs()) &&
           a->StrFact(fact::kPhase) == b->StrFact(fact::kPhase) &&
           a->IntFact(fact::kF32Group, -1) == b->IntFact(fact::kF32Group, -1);
  }
};

// Of the op, the operands and what most often differs besides, sizes.
struct Hash {
  size_t operator()(const Node* n) const {
    size_t h = std::hash<const OpDef*>()(&n->op());
    const auto mix = [&h](int64_t v) { h = (h ^ static_cast<size_t>(v)) * 0x9e3779b97f4a7c15u; };
    for (const Value& v : n->operands()) mix(v ? v.node->id() * 8 + v.index : -1);
    for (const auto& [name, value] : n->attrs()) {
      if (const auto* dims = std::get_if<Dims>(&value)) {
        for (const int64_t d : *dims) mix(d);
      } else if (const auto* integer = std::get_if<int64_t>(&value)) {
        mix(*integer);
      } else if (const auto* real = std::get_if<double>(&value); real && !std::isnan(*real)) {
        mix(std::bit_cast<int64_t>(*real));
      }
    }
    return h ^ (h >> 32);
  }
};

}  // namespace

void MergeDuplicates(Graph& graph, const PassOptions&) {
  std::unordered_set<Node*, Hash, Same> seen;  // their operands stay: what is replaced comes later
  for (Node* n : graph.Nodes()) {
    if (n->HasFact(fact::kRecompute)) continue;
    const auto [it, first] = seen.insert(n);
    if (first) continue;
    for (int i = 0; i < n->num_results(); ++i) {
      graph.ReplaceAllUses(n->result(i), (*it)->result(i));
    }
    graph.Erase(n);
  }
  graph.EraseDead();
}

}  // namespace stator
