// recompute: computes activations anew in the backward pass instead of keeping them since the
// forward pass: those that cost nothing, and then as many bytes as the options ask for.
//
// A value costs nothing when one other large value of no more bytes takes its place in every
// backward kernel that reads it: the product under an added bias, the gate under its SiLU. It is
// then never written, and what stands in for it is kept already or is no larger.
//
// A value is kept when the backward pass reads a result of the forward pass. It can go when
// elementwise ops, index maps and counter-based random bits compute it from other kept values,
// parameters, inputs and values so small that keeping them does not matter: the output of an
// activation from what went into it, that of a norm from the norm's input and statistics. A value
// that another one is recomputed from stays. Candidates are taken in graph order: what is computed
// first is kept longest.
//
// A recomputed value has the bits of the original. Clones stand before their first reader, in the
// scope of their originals, with fact recompute=true, which merge-duplicates respects; fusion joins
// them to the backward kernel that reads the same operands.
#include "ir/facts.h"
#include "ir/region.h"
#include "passes/passes.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace stator {
namespace {

constexpr int64_t kSmallShare = 64;  // keeping less than one in so many of a value's bytes is free
constexpr int64_t kSmallestBytes = 1024;
constexpr size_t kMostNodes = 32;  // of one value's recomputation
constexpr int64_t kSmallestFree = 1
                                  << 20;  // bytes; of less, a kernel more costs more than is saved
constexpr int kFreeFunctions = 1;  // exponentials and the like that hide behind the memory's time

bool IsBackward(const Node& n) { return n.StrFact(fact::kPhase) == "backward"; }

// Whether the node only moves one operand's elements.
bool IsMove(const Node& n) { return n.op_class() == OpClass::kMovement && n.num_operands() == 1; }

Value BelowMoves(Value v) {
  while (IsMove(*v.node)) v = v.node->operand(0);
  return v;
}

bool IsCheap(const Node& n) {
  return n.op_class() == OpClass::kElementwise || n.op_class() == OpClass::kRandom ||
         n.op_class() == OpClass::kMovement;
}

class Recomputer {
 public:
  explicit Recomputer(Graph& graph) : graph_(graph) {}

  void Run(int64_t bytes) {
    FindKept();
    for (const Value& v : order_) {
      if (IsFree(v)) Drop(v);
    }
    for (const Value& v : order_) {
      if (bytes <= 0) return;
      if (dropped_.count(v) > 0) continue;
      if (!TryDrop(v)) continue;
      bytes -= v.type().Bytes();
      Drop(v);
    }
  }

  // Makes `v` again from sources_.
  void Drop(Value v) {
    dropped_.insert(v);
    CloneFor(v);
  }

 private:
  // Fills kept_: the forward values that backward nodes read, and where.
  void FindKept() {
    for (Node* n : graph_.Nodes()) {
      place_.emplace(n->id(), static_cast<int>(place_.size()));
      if (!IsBackward(*n) || IsMove(*n)) continue;
      for (int i = 0; i < n->num_operands(); ++i) {
        if (!n->operand(i)) continue;
        const Value base = BelowMoves(n->operand(i));
        if (base.node->StrFact(fact::kPhase) != "forward") continue;
        if (base.node->op_class() == OpClass::kSource) continue;
        kept_[base].push_back({n, i});
      }
    }
    for (Node* n : graph_.Nodes()) {
      for (int i = 0; i < n->num_results(); ++i) {
        if (kept_.count(n->result(i)) > 0) order_.push_back(n->result(i));
      }
    }
  }

  bool IsFree(Value v) {
    if (v.node->op_class() != OpClass::kElementwise || v.type().Bytes() < kSmallestFree)
      return false;
    if (sources_.count(v) > 0 || !IsKeptForLater(v)) return false;
    for (const Use& use : kept_.at(v)) {
      if (use.node->op_class() != OpClass::kElementwise) return false;
    }
    std::set<Value> large;
    std::set<int> nodes;
    int functions = 0;
    if (!TraceFree(v, v.type().Bytes() / kSmallShare, large, nodes, functions) || large.size() != 1)
      return false;
    const Value source = *large.begin();
    const bool kept = kept_.count(source) > 0 && dropped_.count(source) == 0;
    if (ByteWidth(source.dtype()) > ByteWidth(v.dtype())) return false;
    if (!kept && (IsCheap(*source.node) || source.type().Bytes() > v.type().Bytes())) return false;
    kept_[source];  // at hand from now on
    sources_.insert(source);
    return true;
  }

  // Walks from `v` to the large values that it is computed from, element by element; false where
  // the way is long, costly or crosses rows.
  bool TraceFree(Value v, int64_t small, std::set<Value>& large, std::set<int>& nodes,
                 int& functions) const {
    if (!nodes.insert(v.node->id()).second) return true;
    functions += CallsFunction(*v.node) ? 1 : 0;
    if (nodes.size() > kMostNodes || functions > kFreeFunctions) return false;
    for (const Value& operand : v.node->operands()) {
      if (!operand) continue;
      std::set<Value> unused;
      const Value from = BelowMoves(operand);
      const bool kept = kept_.count(from) > 0 && dropped_.count(from) == 0;
      if (from.type().Bytes() <= small && IsAtHand(from, small, unused)) continue;
      if (CrossesRows(operand)) return false;
      if (kept || !IsCheap(*from.node)) {
        large.insert(from);
      } else if (from.node->op_class() != OpClass::kElementwise ||
                 !TraceFree(from, small, large, nodes, functions)) {
        return false;
      }
    }
    return true;
  }

  static bool CrossesRows(Value v) {
    for (; IsMove(*v.node); v = v.node->operand(0)) {
      if (v.node->Is("transpose")) return true;
    }
    return false;
  }

  // Whether `v` can be recomputed; its sources are kept from then on.
  bool TryDrop(Value v) {
    const Node& n = *v.node;
    if (n.op_class() != OpClass::kElementwise || v.type().Bytes() < kSmallestBytes) return false;
    if (sources_.count(v) > 0 || !IsKeptForLater(v)) return false;
    std::set<Value> sources;
    std::set<int> nodes;
    if (!Trace(v, v.type().Bytes() / kSmallShare, sources, nodes)) return false;
    sources_.insert(sources.begin(), sources.end());
    return true;
  }

  // Whether `v` has readers in the forward pass, and is not kept to the end for its own sake.
  bool IsKeptForLater(Value v) const {
    bool forward = false;
    std::vector<Value> pending = {v};
    while (!pending.empty()) {
      const Value moved = pending.back();
      pending.pop_back();
      if (graph_.IsUsedOutside(moved)) return false;
      for (const Use& use : moved.node->uses()) {
        if (use.node->operand(use.operand) != moved) continue;
        if (IsMove(*use.node)) {
          pending.push_back(use.node->result());
        } else {
          forward = forward || !IsBackward(*use.node);
        }
      }
    }
    return forward;
  }

  // Walks from `v` to what it is computed from; false where something is not at hand.
  bool Trace(Value v, int64_t small, std::set<Value>& sources, std::set<int>& nodes) {
    if (!nodes.insert(v.node->id()).second) return true;
    if (nodes.size() > kMostNodes) return false;
    for (const Value& operand : v.node->operands()) {
      if (!operand || IsAtHand(BelowMoves(operand), small, sources)) continue;
      const Value from = BelowMoves(operand);
      if (!IsCheap(*from.node) || !Trace(from, small, sources, nodes)) return false;
    }
    return true;
  }

  bool IsAtHand(Value v, int64_t small, std::set<Value>& sources) const {
    if (v.node->op_class() == OpClass::kSource) return true;
    if (kept_.count(v) > 0 && dropped_.count(v) == 0) {
      sources.insert(v);
      return true;
    }
    return v.type().Bytes() <= small && !IsCheap(*v.node);
  }

  // Backward readers of `v` get a clone, made before the first of them.
  void CloneFor(Value v) {
    const std::vector<Use>& readers = kept_.at(v);
    Node* before = readers[0].node;
    for (const Use& use : readers) {
      if (place_.at(use.node->id()) < place_.at(before->id())) before = use.node;
    }
    // Clones of moves that stand between must come before the reader as well.
    std::map<Value, Value> clones;
    Clone(v, before, clones);
    for (const Use& use : readers) {
      graph_.SetOperand(use.node, use.operand,
                        Moved(use.node->operand(use.operand), before, clones));
    }
  }

  void Clone(Value v, Node* before, std::map<Value, Value>& clones) {
    if (clones.count(v) > 0) return;
    std::vector<Value> operands;
    for (const Value& operand : v.node->operands()) {
      std::set<Value> unused;
      const Value from = operand ? BelowMoves(operand) : operand;
      if (operand && !IsAtHand(from, v.type().Bytes() / kSmallShare, unused) &&
          IsCheap(*from.node)) {
        Clone(from, before, clones);
      }
      operands.push_back(operand ? Moved(operand, before, clones) : operand);
    }
    CloneNode(v, std::move(operands), before, clones);
  }

  // `v` with its moves done to the clone of what they move; `v` itself where that has no clone.
  Value Moved(Value v, Node* before, std::map<Value, Value>& clones) {
    if (const auto known = clones.find(v); known != clones.end()) return known->second;
    if (!IsMove(*v.node)) return v;
    const Value from = Moved(v.node->operand(0), before, clones);
    if (from == v.node->operand(0)) return v;
    return CloneNode(v, {from}, before, clones);
  }

  Value CloneNode(Value v, std::vector<Value> operands, Node* before,
                  std::map<Value, Value>& clones) {
    Node* copy = graph_.AddCopy(*v.node, operands, before);
    copy->SetFact(fact::kPhase, std::string("backward"));
    copy->SetFact(fact::kRecompute, true);
    return clones[v] = copy->result(v.index);
  }

  Graph& graph_;
  std::map<int, int> place_;                // by node id
  std::map<Value, std::vector<Use>> kept_;  // backward readers
  Values order_;                            // of kept_
  std::set<Value> dropped_, sources_;
};

}  // namespace

void Recompute(Graph& graph, const PassOptions& options) {
  Recomputer(graph).Run(options.recompute_bytes);
}

}  // namespace stator
