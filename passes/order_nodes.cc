// order-nodes: a legal order in which the nodes of a region stand together, views follow what they
// view, and memory is freed early.
//
// The given order is kept where it is legal, unless running steps that free memory first lowers the
// peak. A step that writes a state's next value comes after the readers of the old value where
// that is possible, so that plan-memory can let it write in place.
//
// Where it costs next to no memory, the update comes last and its equal steps stand side by side,
// marked as `together`: codegen makes one launch of them (codegen/merge_calls.h). For a GPU also
// its different ones, and with them the little kernels before it that only it waits for: the last
// folds of gradients.
#include "ir/base/error.h"
#include "ir/facts.h"
#include "ir/space.h"
#include "ir/text.h"
#include "ir/views.h"
#include "passes/analysis/schedule.h"
#include "passes/passes.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace stator {
namespace {

constexpr int64_t kTogetherBytes = 1 << 20;  // a higher peak that fewer launches are worth
constexpr int64_t kLittleBytes = 1 << 19;    // read by a step that can wait for the update

// A region with the views on its results. Numbered by the place of its first node.
struct Unit {
  std::vector<Node*> nodes;  // in the given order
};

class Orderer {
 public:
  Orderer(Graph& graph, const Target* target)
      : graph_(graph), gpu_(target != nullptr && target->kind() == DeviceKind::kCuda) {}

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
    MarkRuns(order, Group(order));
    Apply(order);
  }

 private:
  // The unit of a node; -1 for inputs, states, inline constants and views on those.
  int UnitOf(const Node& node) const { return unit_of_[node.id()]; }

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

  bool IsUpdate(int unit) const { return units_[unit].nodes[0]->StrFact(fact::kPhase) == "update"; }

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

  // Changes the order to one with runs, as far as memory admits; the runs' ends, or nothing.
  std::vector<int> Group(std::vector<int>& order) {
    kind_.assign(units_.size(), -1);
    const int64_t most = PeakBytes(problem_, order) + kTogetherBytes;
    // The most that may be grouped first.
    static constexpr struct {
      bool little, different;
    } kGroupings[] = {{true, true}, {false, true}, {false, false}};
    for (size_t k = gpu_ ? 0 : std::size(kGroupings) - 1; k < std::size(kGroupings); ++k) {
      FindLate(order, kGroupings[k].little);
      different_ = kGroupings[k].different;
      const std::vector<int> grouped = LateTogether(order), ends = RunEnds(grouped);
      if (PeakBytes(problem_, grouped, ends) > most) continue;
      order = grouped;
      return ends;
    }
    return {};
  }

  // The update, and with `little` what only it, or nothing, waits for, if it is a kernel that reads
  // little.
  void FindLate(const std::vector<int>& legal, bool little) {
    late_.assign(units_.size(), false);
    for (size_t k = legal.size(); k-- > 0;) {
      const int u = legal[k];
      bool waited_for = false;
      for (const int after : problem_.successors[u]) waited_for = waited_for || !late_[after];
      late_[u] = IsUpdate(u) || (little && !waited_for && IsLittleKernel(u));
    }
  }

  bool IsLittleKernel(int unit) const {
    std::set<Value> read;
    for (const Node* n : units_[unit].nodes) {
      switch (n->op_class()) {
        case OpClass::kElementwise:
        case OpClass::kReduce:
        case OpClass::kMovement:
          break;
        default:
          return false;
      }
      for (const Value& v : n->operands()) {
        if (!v) continue;
        const Value base = ResolveView(v).base;
        if (UnitOf(*base.node) != unit && IsMaterialized(base)) read.insert(base);
      }
    }
    int64_t bytes = 0;
    for (const Value& v : read) bytes += v.type().Bytes();
    return bytes <= kLittleBytes;
  }

  // Equal steps have one number, in the order in which they are first asked for.
  int KindOf(int unit) {
    if (kind_[unit] < 0)
      kind_[unit] =
          kinds_.emplace(SignatureOf(unit), static_cast<int>(kinds_.size())).first->second;
    return kind_[unit];
  }

  // The late steps last, by how many of them they wait for, and equal ones side by side: codegen
  // makes one kernel of such neighbours. The given order where anything else waits for the update.
  std::vector<int> LateTogether(const std::vector<int>& order) {
    std::vector<int> others, last, depth(units_.size(), 0);
    for (const int u : order) {
      (late_[u] ? last : others).push_back(u);
      if (!late_[u]) continue;
      KindOf(u);
      for (const int after : problem_.successors[u]) {
        if (!late_[after]) return order;
        depth[after] = std::max(depth[after], depth[u] + 1);
      }
    }
    std::stable_sort(last.begin(), last.end(), [&](int a, int b) {
      return std::pair(depth[a], kind_[a]) < std::pair(depth[b], kind_[b]);
    });
    others.insert(others.end(), last.begin(), last.end());
    return others;
  }

  // For each place in the order the last one of its run: of equal updates side by side, or
  // different ones, none of which waits for another.
  std::vector<int> RunEnds(const std::vector<int>& order) {
    std::vector<int> ends(order.size());
    std::vector<size_t> waits(units_.size(),
                              0);  // the last run, counted from 1, that a unit waits for
    for (size_t first = 0, end = 0; first < order.size(); first = end) {
      const bool late = late_[order[first]];
      end = first;
      do {
        for (const int after : problem_.successors[order[end]]) waits[after] = first + 1;
        ++end;
      } while (late && end < order.size() && late_[order[end]] &&
               (different_ || KindOf(order[end]) == KindOf(order[first])) &&
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
    Fail(ErrorCode::kInvalidArgument,
         "order-nodes: regions depend on each other in a circle, at region ", RegionOf(node), ": ",
         PrintNode(node));
  }

  Graph& graph_;
  const bool gpu_;
  std::vector<Unit> units_;
  std::vector<Node*> free_;
  std::vector<int> unit_of_;  // by node id
  std::vector<char> placed_;  // by node id
  std::vector<char> late_;    // by unit
  bool different_ = false;    // whether runs may be of different steps
  std::vector<int> kind_;  // by unit: equal where they do the same to something; -1: not asked for
  std::unordered_map<std::string, int> kinds_;  // by signature
  ScheduleProblem problem_;
};

}  // namespace

void OrderNodes(Graph& graph, const PassOptions& options) { Orderer(graph, options.target).Run(); }

}  // namespace stator
