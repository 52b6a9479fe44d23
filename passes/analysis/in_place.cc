#include "passes/analysis/in_place.h"

#include "ir/facts.h"
#include "ir/region.h"
#include "ir/views.h"

#include <set>

namespace stator {

namespace {

bool HasFolds(const std::vector<Node*>& nodes) {
  for (const Node* node : nodes) {
    if (node->op_class() == OpClass::kReduce) return true;
  }
  return false;
}

// Whether the region reads `pick`, a single element of a row, before it stores any: ahead of a fold
// that something stored waits for.
bool PicksBeforeStores(const Node& pick, const std::vector<Node*>& nodes) {
  const RegionSpace space = SpaceOfRegion(nodes);
  if (!PicksFromRow(space, pick)) return false;
  const std::set<const Node*> inside(nodes.begin(), nodes.end());
  SweepOrder order(inside);
  if (order.Of(&pick) > 0) return false;
  for (const Node* n : nodes) {
    if (!IsInline(*n) && PlaceOf(space, *n) == Place::kFull && order.Of(n) > 0) return true;
  }
  return false;
}

}  // namespace

bool StoresAfterReads(const std::vector<Node*>& nodes) {
  int contractions = 0, others = 0;
  for (const Node* node : nodes) {
    switch (node->op_class()) {
      case OpClass::kSource:
        break;
      case OpClass::kElementwise:
      case OpClass::kMovement:
      case OpClass::kRandom:
        ++others;
        break;
      case OpClass::kReduce:
        if (!node->Is("fold")) return false;
        break;
      case OpClass::kGather:
        if (!PicksBeforeStores(*node, nodes)) return false;
        break;
      case OpClass::kScatter:
        if (node->StrFact(fact::kEpilogue) != "accumulate") return false;
        ++contractions;
        break;
      case OpClass::kContraction:
        ++contractions;
        break;
      default:
        return false;
    }
  }
  if (HasFolds(nodes)) return contractions == 0 && SpaceOfRegion(nodes).has_rows();
  return contractions == 0 || (contractions == 1 && others <= 1);
}

bool CanOverwrite(Value old, Value out, const std::vector<Node*>& nodes) {
  const Type &from = old.type(), &to = out.type();
  if (ByteWidth(from.dtype) != ByteWidth(to.dtype)) return false;
  if (from.NumElements() != to.NumElements()) return false;
  const bool folds = HasFolds(nodes);
  if (folds && (out.node->Is("fold") || SpaceOfRegion(nodes).elements() != to.NumElements())) {
    return false;
  }

  // What depends on `old` inside the region; every step of the way must keep the index.
  const int region = RegionOf(*out.node);
  std::vector<Value> pending = {old};
  std::set<int> seen;
  bool reaches_out = false;
  while (!pending.empty()) {
    const Value v = pending.back();
    pending.pop_back();
    for (const Use& use : UsesThroughViews(v)) {
      Node& user = *use.node;
      if (RegionOf(user) != region) continue;
      const Value operand = user.operand(use.operand);
      if (operand.type().NumElements() != to.NumElements() ||
          !IsDense(ResolveView(operand), operand.shape())) {
        return false;
      }
      if (folds && user.op_class() == OpClass::kReduce) continue;  // from here on once a row
      if (folds && PicksBeforeStores(user, nodes)) continue;
      if (user.op_class() != OpClass::kElementwise) return false;
      reaches_out = reaches_out || &user == out.node;
      if (!seen.insert(user.id()).second) continue;
      for (int i = 0; i < user.num_results(); ++i) pending.push_back(user.result(i));
    }
  }
  return reaches_out;
}

}  // namespace stator
