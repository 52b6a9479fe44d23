// plan-memory: where every materialized value is stored, as facts `space` and `offset`
// (ir/storage.h).
//
// Three choices, in this order. A value that becomes a state's next value is written into the
// state's own storage when nothing needs the old value any more. A value whose region reads a dying
// operand element by element takes over that operand's storage. Everything else gets its own place
// in the arena, by lifetime. Outputs and next states that are elsewhere stay alive to the end,
// where the plan copies them.
#include "ir/facts.h"
#include "ir/storage.h"
#include "ir/views.h"
#include "passes/analysis/in_place.h"
#include "passes/analysis/liveness.h"
#include "passes/analysis/offset_planner.h"
#include "passes/passes.h"

#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace stator {
namespace {

constexpr int64_t kOwnStorage = -1, kFromRegion = -2;  // values of fact `inplace`

class Planner {
 public:
  explicit Planner(Graph& graph) : graph_(graph), liveness_(AnalyzeLiveness(graph)) {
    for (size_t s = 0; s < graph.states().size(); ++s) {
      state_index_[graph.states()[s].node->id()] = static_cast<int64_t>(s);
    }
    for (const NextState& next : graph.next_states()) {
      const View view = ResolveView(next.value);
      if (IsDense(view, next.value.shape()) &&
          view.base.type().NumElements() == next.value.type().NumElements()) {
        becomes_[view.base].push_back(next.state);
      }
    }
    by_step_.resize(liveness_.steps.size());
    for (size_t r = 0; r < liveness_.values.size(); ++r) {
      by_step_[liveness_.values[r].first].push_back(static_cast<int>(r));
    }
  }

  void Run() {
    for (Node* node : graph_.Nodes()) {
      for (const auto key : {fact::kSpace, fact::kOffset, fact::kInPlace, fact::kScratchAt}) {
        node->ClearFact(key);
      }
    }
    for (size_t s = 0; s < liveness_.steps.size(); ++s) PlanStep(static_cast<int>(s));
    PlanOffsets(slots_);
    Record();
  }

 private:
  struct Place {
    Space space = Space::kNone;
    int64_t where = 0;  // kState: index of the state; kArena: slot
    int64_t in_place = kOwnStorage;
  };

  void PlanStep(int step) {
    const std::vector<Node*>& nodes = liveness_.steps[step].nodes;
    const bool in_place = StoresAfterReads(nodes);
    // States first: what is written there needs no arena, so that its operands stay for others.
    for (const int r : by_step_[step]) TryState(liveness_.values[r], step, in_place);
    for (const int r : by_step_[step]) {
      const LiveRange& range = liveness_.values[r];
      if (places_.count(range.value) > 0) continue;
      if (in_place && TryInPlace(range, step, nodes)) continue;
      places_[range.value] = {Space::kArena, NewSlot(range)};
    }
    for (Node* node : nodes) {
      const int64_t scratch = node->IntFact(fact::kScratch, 0);
      if (scratch == 0) continue;
      scratch_.emplace_back(node, slots_.size());
      slots_.push_back({step, liveness_.steps[step].done, scratch});
      holds_.emplace_back();
    }
  }

  void TryState(const LiveRange& range, int step, bool in_place) {
    const auto found = becomes_.find(range.value);
    if (found == becomes_.end()) return;
    for (Node* state : found->second) {
      if (!MayWriteState(range.value, state->result(), step, in_place)) continue;
      places_[range.value] = {Space::kState, state_index_.at(state->id()),
                              InPlaceMark(range.value, state->result())};
      return;
    }
  }

  // Nothing after `step` needs the old contents, and the step itself reads them, if at all, element
  // by element.
  bool MayWriteState(Value value, Value state, int step, bool in_place) const {
    if (IsUsedOutsideThroughViews(state)) return false;
    bool read_here = false;
    const bool needed_later = AnyUseThroughViews(state, [&](const Use& use) {
      const int reader = liveness_.StepOf(*use.node);
      read_here = read_here || reader == step;
      return reader < 0 || liveness_.steps[reader].done > step;
    });
    if (needed_later) return false;
    return !read_here || (in_place && CanOverwrite(state, value, liveness_.steps[step].nodes));
  }

  bool TryInPlace(const LiveRange& range, int step, const std::vector<Node*>& nodes) {
    const Type& type = range.value.type();
    if (type.NumElements() == 0) return false;
    std::unordered_set<Value, ValueHash> tried;
    for (const Node* node : nodes) {
      for (const Value operand : node->operands()) {
        if (!operand) continue;
        const Value old = ResolveView(operand).base;
        if (old.type().NumElements() != type.NumElements()) continue;
        const auto place = places_.find(old);
        if (place == places_.end() || place->second.space != Space::kArena) continue;
        const int64_t slot = place->second.where;
        const LiveRange& there = holds_[slot];
        if (there.value != old || there.last != step || there.first == step || there.to_end)
          continue;
        if (!tried.insert(old).second || !CanOverwrite(old, range.value, nodes)) continue;
        slots_[slot].last = range.last;
        holds_[slot] = range;
        places_[range.value] = {Space::kArena, slot, InPlaceMark(range.value, old)};
        return true;
      }
    }
    return false;
  }

  int64_t NewSlot(const LiveRange& range) {
    slots_.push_back({range.first, range.last, range.value.type().Bytes()});
    holds_.push_back(range);
    return static_cast<int64_t>(slots_.size()) - 1;
  }

  // What fact `inplace` says of `value` in the storage of `old`.
  static int64_t InPlaceMark(Value value, Value old) {
    for (int i = 0; i < value.node->num_operands(); ++i) {
      const Value operand = value.node->operand(i);
      if (operand && ResolveView(operand).base == old) return i;
    }
    const bool read = AnyUseThroughViews(
        old, [&](const Use& use) { return RegionOf(*use.node) == RegionOf(*value.node); });
    return read ? kFromRegion : kOwnStorage;
  }

  void Record() {
    for (const RegionStep& step : liveness_.steps) {
      for (Node* node : step.nodes) RecordNode(node);
    }
    for (const auto& [node, slot] : scratch_) node->SetFact(fact::kScratchAt, slots_[slot].offset);
  }

  bool HasPlace(Node& node) const {
    for (int i = 0; i < node.num_results(); ++i) {
      if (places_.contains(node.result(i))) return true;
    }
    return false;
  }

  void RecordNode(Node* node) {
    if (!HasPlace(*node)) return;
    Dims space(node->num_results(), 0), offset(node->num_results(), 0);
    Dims in_place(node->num_results(), kOwnStorage);
    bool reuses = false;
    for (int i = 0; i < node->num_results(); ++i) {
      const auto found = places_.find(node->result(i));
      if (found == places_.end()) continue;
      const Place& place = found->second;
      space[i] = static_cast<int64_t>(place.space);
      offset[i] = place.space == Space::kArena ? slots_[place.where].offset : place.where;
      in_place[i] = place.in_place;
      reuses = reuses || place.in_place != kOwnStorage;
    }
    node->SetFact(fact::kSpace, space);
    node->SetFact(fact::kOffset, offset);
    if (reuses) node->SetFact(fact::kInPlace, in_place);
  }

  Graph& graph_;
  const Liveness liveness_;
  std::unordered_map<int, int64_t> state_index_;  // by node id
  // Value -> states whose next value it is.
  std::unordered_map<Value, std::vector<Node*>, ValueHash> becomes_;
  std::vector<std::vector<int>> by_step_;  // indices into liveness_.values
  std::unordered_map<Value, Place, ValueHash> places_;
  std::vector<Interval> slots_;                    // arena buffers
  std::vector<LiveRange> holds_;                   // the value that holds each slot last
  std::vector<std::pair<Node*, size_t>> scratch_;  // slots of nodes' scratch
};

}  // namespace

void PlanMemory(Graph& graph, const PassOptions&) { Planner(graph).Run(); }

}  // namespace stator
