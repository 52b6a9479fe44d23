#include "passes/precision_policy.h"

#include "ir/base/str.h"
#include "ir/facts.h"
#include "ir/training.h"

#include <algorithm>

namespace stator {
namespace {

bool AllScalars(const Node& n) {
  for (int i = 0; i < n.num_results(); ++i) {
    if (n.type(i).NumElements() > 1) return false;
  }
  return true;
}

// The only node that uses `v`, or null.
const Node* OnlyUser(const Graph& graph, Value v) {
  if (graph.IsUsedOutside(v)) return nullptr;
  const Node* user = nullptr;
  for (const Use& use : v.node->uses()) {
    if (use.node->operand(use.operand) != v) continue;
    if (user != nullptr && user != use.node) return nullptr;
    user = use.node;
  }
  return user;
}

}  // namespace

PrecisionPolicy::PrecisionPolicy(const Graph& graph, const PassOptions& options)
    : graph_(graph),
      options_(options),
      places_(graph.max_id(), Place::kWide),
      kept_(graph.max_id(), false) {
  for (const Node* n : graph.Nodes()) {
    kept_[n->id()] =
        std::any_of(options_.keep_f32.begin(), options_.keep_f32.end(),
                    [&](const std::string& glob) { return GlobMatch(glob, n->scope()); });
    places_[n->id()] = Classify(*n);
  }
  FindParameterGradients();
}

int64_t PrecisionPolicy::GroupOf(const Node& n) const {
  return PlaceOf(n) == Place::kGroup ? n.IntFact(fact::kF32Group, -1) : -1;
}

Place PrecisionPolicy::Classify(const Node& n) const {
  if (n.StrFact(fact::kPhase) == "update" || n.op().precision == Precision::kF32 || kept_[n.id()]) {
    return Place::kWide;
  }
  if (n.HasFact(fact::kF32Group)) return Place::kGroup;
  if (n.op().precision == Precision::kLow) return Place::kNarrow;
  if (AllScalars(n)) return Place::kWide;
  if (n.op().precision == Precision::kComputeInF32) return Place::kNarrow;
  switch (n.op_class()) {
    case OpClass::kElementwise:
      return Place::kElementwise;
    case OpClass::kReduce:
    case OpClass::kScatter:
      return Place::kReduce;  // sums over unknown many, in f32
    case OpClass::kMovement:
      return Place::kMovement;
    case OpClass::kGather:
      return Place::kGather;
    case OpClass::kScan:
      return Place::kElementwise;
    default:
      return Place::kFollow;
  }
}

bool PrecisionPolicy::StaysInside(Value v) const {
  const Node* user = OnlyUser(graph_, v);
  if (user == nullptr) return false;
  if (user->StrFact(fact::kPhase) != v.node->StrFact(fact::kPhase)) return false;
  const Place place = PlaceOf(*user);
  const bool sums_or_maps =
      user->op_class() == OpClass::kElementwise || user->op_class() == OpClass::kReduce;
  return place == Place::kElementwise || place == Place::kReduce ||
         (place == Place::kWide && sums_or_maps);
}

bool PrecisionPolicy::FeedsKept(Value v) const {
  const auto reads = [&](const Use& use) {
    return kept_[use.node->id()] && use.node->operand(use.operand) == v;
  };
  return std::any_of(v.node->uses().begin(), v.node->uses().end(), reads);
}

// From what the update reads, or from the gradient outputs, back through nodes that only rearrange
// or add up gradients. Operands that something else reads too are activations' gradients.
void PrecisionPolicy::FindParameterGradients() {
  Values work;
  const auto mark = [&](Value v) {
    if (!v || !IsFloat(v.dtype()) || v.node->StrFact(fact::kPhase) != "backward") return;
    if (parameter_gradients_.insert(v).second) work.push_back(v);
  };
  for (const Output& o : graph_.outputs()) {
    if (o.name.starts_with(training::kGradPrefix)) mark(o.value);
  }
  for (const Node* n : graph_.Nodes()) {
    if (n->StrFact(fact::kPhase) != "update") continue;
    for (const Value& v : n->operands()) mark(v);
  }
  while (!work.empty()) {
    const Node& n = *work.back().node;
    work.pop_back();
    const Place place = PlaceOf(n);
    for (const Value& v : n.operands()) {
      if (!v) continue;
      const bool passes_on = place == Place::kMovement || place == Place::kElementwise ||
                             (place == Place::kReduce && n.op_class() == OpClass::kReduce);
      if (passes_on && OnlyUser(graph_, v) != nullptr) mark(v);
    }
  }
}

}  // namespace stator
