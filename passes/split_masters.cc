// split-masters: keeps an f32 parameter that has a bf16 shadow as two states of 2 bytes an element,
// in place of 4 and 2: `<name>.bf16`, which the rest of the step computes with, and `<name>.low`,
// the low 16 bits. Whoever reads the f32, above all the update, puts it together in its own kernel.
//
// No f32 is lost. Of an f32 halfway between two bf16s, though, the bf16 is now the one farther from
// zero: with ties to even the halves would not say which f32 they came from (ir/dtype.h, HighHalf).
// A plan has one entry for both, named as the parameter. An f16 shadow stays: its exponent is
// another, and the rest would not fit 16 bits.
#include "ir/builder.h"
#include "ir/facts.h"
#include "passes/analysis/shadows.h"
#include "passes/passes.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace stator {
namespace {

struct Halves {
  Value high, low;
};

class Splitter {
 public:
  explicit Splitter(Graph& graph) : graph_(graph), b_(graph) {}

  void Run() {
    std::vector<Node*> shadows;
    for (const Param& p : graph_.states()) {
      if (IsShadow(*p.node) && p.node->type().dtype == DType::kBF16) shadows.push_back(p.node);
    }
    for (Node* shadow : shadows) Declare(shadow);
    if (halves_.empty()) return;
    for (Node* n : graph_.Nodes()) {
      for (int i = 0; i < n->num_operands(); ++i) {
        if (n->operand(i) && halves_.contains(n->operand(i).node)) {
          graph_.SetOperand(n, i, Joined(n->operand(i), *n));
        }
      }
    }
    for (Node* master : masters_) Replace(master);
    graph_.EraseDead();
  }

 private:
  // Both states in every program, also where one alone is read: all agree on what a table holds.
  void Declare(Node* shadow) {
    const std::string name = ShadowedName(graph_.ParamName(shadow));
    shadow->SetAttr("role", std::string("parameter"));
    shadow->SetAttr("derived", false);
    shadow->SetAttr("half_of", name);
    const Halves halves = {
        shadow->result(),
        graph_.AddState(name + ".low", {DType::kU16, shadow->type().shape}, shadow->attrs())};
    const Value master = graph_.FindState(name);
    if (!master) return;
    halves_.emplace(master.node, halves);
    masters_.push_back(master.node);
  }

  // The f32 for `reader`: put together once a phase, so that none lives from one to the next.
  Value Joined(Value master, Node& reader) {
    const std::string phase = reader.StrFact(fact::kPhase);
    Value& joined = joined_[{master.node->id(), phase}];
    if (!joined) {
      b_.SetInsertBefore(&reader);
      joined = Join(master.node, phase);
    }
    return joined;
  }

  Value Join(Node* master, const std::string& phase) {
    Enter(master, phase);
    const Halves& halves = halves_.at(master);
    return b_.Create1("join_halves", {halves.high, halves.low});
  }

  void Enter(Node* master, const std::string& phase) {
    b_.SetScope(graph_.ParamName(master));
    b_.default_facts() = {};
    if (!phase.empty()) b_.default_facts()[std::string(fact::kPhase)] = phase;
  }

  void Replace(Node* master) {
    b_.SetInsertBefore(nullptr);
    if (const Value next = graph_.FindNextState(master); next && next != master->result()) {
      Enter(master, "update");
      const Halves& halves = halves_.at(master);
      graph_.SetNextState(halves.high, b_.Create1("high_half", {next}));
      graph_.SetNextState(halves.low, b_.Create1("low_half", {next}));
    }
    if (graph_.IsUsedOutside(master->result())) {
      graph_.ReplaceAllUses(master->result(), Join(master, "update"));
    }
    graph_.RemoveState(graph_.ParamName(master));
  }

  Graph& graph_;
  Builder b_;
  std::map<const Node*, Halves> halves_;  // by master; looked up, not walked through
  std::vector<Node*> masters_;
  std::map<std::pair<int, std::string>, Value> joined_;  // by master's id and phase
};

}  // namespace

void SplitMasters(Graph& graph, const PassOptions&) { Splitter(graph).Run(); }

}  // namespace stator
