// order-nodes: a legal order in which the nodes of a region stand together, views follow what they
// view, and memory is freed early.
//
// The given order is kept where it is legal, unless running steps that free memory first lowers the
// peak. A step that writes a state's next value comes after the readers of the old value where
// that is possible, so that plan-memory can let it write in place.
//
// Where it costs next to no memory, the update comes last and its equal steps stand side by side, marked as
// `together`: codegen makes one launch of them (codegen/merge_calls.h).
#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/base/error.h"
#include "ir/facts.h"
#include "ir/space.h"
#include "ir/text.h"
#include "ir/views.h"
#include "passes/analysis/schedule.h"
#include "passes/passes.h"

namespace stator {
namespace {

constexpr int64_t kTogetherBytes = 1 << 20;  // a higher peak that fewer launches are worth

// A region with the views on its results. Numbered by the place of its first node.
struct Unit {
  std::vector<Node*> nodes;  // in the given order
};

class Orderer {
 public:
  explicit Orderer(Graph& graph) : graph_(graph) {}

  void Run() {
    FormUnits();
    AddDataEdges();
    AddBuffers();
    std::vector<int> order = OrderAsWanted(problem_);
    if (order.size() != units_.size()) FailOnCycle(order);
    KeepReadersBeforeWriters(order);
    order = OrderAsWanted(problem_);
    const std::vector<int> frugal = OrderForMemory(problem_);
    if (PeakBytes(problem_, frugal) < PeakBytes(problem_, order)) order = frugal;
    GroupUpdates(order);
    const std::vector<int> grouped = EqualUpdatesTogether(order), ends = RunEnds(grouped);
    const bool together = PeakBytes(problem_, grouped, ends) <= PeakBytes(problem_, order) + kTogetherBytes;
    if (together) order = grouped;
    MarkRuns(order, together ? ends : std::vector<int>());
    Apply(order);
  }

 private:
  // The unit of a node; -1 for inputs, states, inline constants and views on those.
  int UnitOf(const Node& node) const {
    return unit_of_[node.id()];
  }

  void FormUnits() {
    std::unordered_map<int, int> unit_of_region;
    unit_of_.assign(graph_.max_id(), -1);
    placed_.assign(graph_.max_id(), false);
    for (Node* node : graph_.Nodes()) {
      int unit = -1;
      const int region = RegionOf(*node);
      if (region >= 0) {
        const auto [it, fresh] = unit_of_region.emplace(region, static_cast<int>(units_.size()));
        if (fresh) units_.emplace_back();
        unit = it->second;
      } else if (IsViewNode(*node)) {
        unit = UnitOf(*ResolveView(node->result()).base.node);
      } else if (node->op_class() != OpClass::kSource) {
        Fail(ErrorCode::kInvalidArgument, "order-nodes: node has no region: ", PrintNode(*node));
      }
      if (unit < 0) {
        free_.push_back(node);
        continue;
      }
      unit_of_[node->id()] = unit;
      units_[unit].nodes.push_back(node);
    }
    problem_.num_steps = static_cast<int>(units_.size());
    problem_.successors.resize(units_.size());
  }

  void AddDataEdges() {
    for (size_t u = 0; u < units_.size(); ++u) {
      std::vector<int> before;
      for (const Node* node : units_[u].nodes) {
        for (const Value& operand : node->operands()) {
          const int b = operand ? UnitOf(*operand.node) : -1;
          if (b >= 0 && b != static_cast<int>(u)) before.push_back(b);
        }
      }
      for (const int b : Distinct(std::move(before))) {
        problem_.successors[b].push_back(static_cast<int>(u));
      }
    }
  }

  void AddBuffers() {
    std::unordered_set<Value, ValueHash> next;
    for (const NextState& n : graph_.next_states()) next.insert(ResolveView(n.value).base);
    for (size_t u = 0; u < units_.size(); ++u) {
      for (Node* node : units_[u].nodes) {
        for (int i = 0; i < node->num_results(); ++i) {
          const Value v = node->result(i);
          // Next states mostly live in the state's own storage.
          if (!IsMaterialized(v) || next.count(v) > 0) continue;
          problem_.buffers.push_back({static_cast<int>(u), Readers(v, static_cast<int>(u)),
                                      AlignBuffer(v.type().Bytes()), IsUsedOutsideThroughViews(v)});
        }
      }
    }
  }

  std::vector<int> Readers(Value v, int except) const {
    std::vector<int> readers;
    AnyUseThroughViews(v, [&](const Use& use) {
      const int unit = UnitOf(*use.node);
      if (unit >= 0 && unit != except) readers.push_back(unit);
      return false;
    });
    return Distinct(std::move(readers));
  }

  // Ascending.
  static std::vector<int> Distinct(std::vector<int> units) {
    std::sort(units.begin(), units.end());
    units.erase(std::unique(units.begin(), units.end()), units.end());
    return units;
  }

  void KeepReadersBeforeWriters(const std::vector<int>& legal) {
    std::vector<int> at(units_.size());
    for (size_t k = 0; k < legal.size(); ++k) at[legal[k]] = static_cast<int>(k);
    std::vector<std::pair<int, int>> backward;
    for (const NextState& n : graph_.next_states()) {
      const int writer = UnitOf(*ResolveView(n.value).base.node);
      if (writer < 0) continue;
      for (const int reader : Readers(n.state->result(), writer)) {
        // Along a legal order no edge makes a cycle.
        if (at[reader] < at[writer]) {
          problem_.successors[reader].push_back(writer);
        } else {
          backward.emplace_back(reader, writer);
        }
      }
    }
    for (const auto& [reader, writer] : backward) AddEdgeIfAcyclic(problem_, reader, writer);
  }

  bool IsUpdate(int unit) const {
    return units_[unit].nodes[0]->StrFact(fact::kPhase) == "update";
  }

  // What the steps of the update do, whatever they do it to.
  std::string SignatureOf(int unit) const {
    std::string text;
    for (const Node* n : units_[unit].nodes) {
      if (IsViewNode(*n)) continue;
      text += n->op().name;
      for (const Value& v : n->operands()) text += v ? StrCat(' ', v.type().ToString()) : " -";
      text += '\n';
    }
    return text;
  }

  // Equal updates have one number, in the order of the first of each.
  void GroupUpdates(const std::vector<int>& order) {
    group_.assign(units_.size(), -1);
    std::unordered_map<std::string, int> groups;
    for (const int u : order) {
      if (!IsUpdate(u)) continue;
      group_[u] = groups.emplace(SignatureOf(u), static_cast<int>(groups.size())).first->second;
    }
  }

  // The update's steps last, by how many of them they wait for, and equal ones side by side: codegen
  // makes one kernel of such neighbours. The given order where anything else waits for the update.
  std::vector<int> EqualUpdatesTogether(const std::vector<int>& order) const {
    std::vector<int> others, last, depth(units_.size(), 0);
    for (const int u : order) {
      const bool update = group_[u] >= 0;
      (update ? last : others).push_back(u);
      if (!update) continue;
      for (const int after : problem_.successors[u]) {
        if (group_[after] < 0) return order;
        depth[after] = std::max(depth[after], depth[u] + 1);
      }
    }
    std::stable_sort(last.begin(), last.end(), [&](int a, int b) {
      return std::pair(depth[a], group_[a]) < std::pair(depth[b], group_[b]);
    });
    others.insert(others.end(), last.begin(), last.end());
    return others;
  }

  // For each place in the order the last one of its run: of equal updates side by side, none of which
  // waits for another.
  std::vector<int> RunEnds(const std::vector<int>& order) const {
    std::vector<int> ends(order.size());
    std::vector<size_t> waits(units_.size(), 0);  // the last run, counted from 1, that a unit waits for
    for (size_t first = 0, end = 0; first < order.size(); first = end) {
      const int group = group_[order[first]];
      end = first;
      do {
        for (const int after : problem_.successors[order[end]]) waits[after] = first + 1;
        ++end;
      } while (group >= 0 && end < order.size() && group_[order[end]] == group &&
               waits[order[end]] != first + 1);
      std::fill(ends.begin() + first, ends.begin() + end, static_cast<int>(end) - 1);
    }
    return ends;
  }

  // Numbers the runs; plan-memory reuses no buffer within one. No `ends`, no runs.
  void MarkRuns(const std::vector<int>& order, const std::vector<int>& ends) {
    int64_t run = -1;
    for (size_t k = 0; k < order.size(); ++k) {
      const bool begins = k == 0 || ends.empty() || ends[k] != ends[k - 1];
      const bool alone = ends.empty() || (begins && ends[k] == static_cast<int>(k));
      if (begins && !alone) ++run;
      for (Node* n : units_[order[k]].nodes) {
        n->ClearFact(fact::kTogether);
        if (!alone && RegionOf(*n) >= 0) n->SetFact(fact::kTogether, run);
      }
    }
  }

  void Apply(const std::vector<int>& order) {
    for (const int u : order) {
      for (Node* node : units_[u].nodes) {
        for (const Value operand : node->operands()) {
          if (operand) PlaceFree(operand.node);
        }
        graph_.MoveBefore(node, nullptr);
      }
    }
    for (Node* node : free_) PlaceFree(node);
  }

  // Constants and views on inputs stand before the first unit that uses them.
  void PlaceFree(Node* node) {
    if (UnitOf(*node) >= 0 || node->Is("input") || node->Is("state")) return;
    if (placed_[node->id()]) return;
    placed_[node->id()] = true;
    for (const Value operand : node->operands()) {
      if (operand) PlaceFree(operand.node);
    }
    graph_.MoveBefore(node, nullptr);
  }

  [[noreturn]] void FailOnCycle(const std::vector<int>& order) const {
    std::set<int> missing;
    for (size_t u = 0; u < units_.size(); ++u) missing.insert(static_cast<int>(u));
    for (const int u : order) missing.erase(u);
    const Node& node = *units_[*missing.begin()].nodes.front();
    Fail(ErrorCode::kInvalidArgument, "order-nodes: regions depend on each other in a circle, at region ",
         RegionOf(node), ": ", PrintNode(node));
  }

  Graph& graph_;
  std::vector<Unit> units_;
  std::vector<Node*> free_;
  std::vector<int> unit_of_;  // by node id
  std::vector<char> placed_;  // by node id
  std::vector<int> group_;    // by unit: of those that do the same to something; -1 where no update
  ScheduleProblem problem_;
};

}  // namespace

void OrderNodes(Graph& graph, const PassOptions&) { Orderer(graph).Run(); }

}  // namespace stator
