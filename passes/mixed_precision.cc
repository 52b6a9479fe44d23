// mixed-precision: rewrites an f32 graph (forward, gradients, update) to compute in a low dtype,
// bf16 or f16, wherever that is harmless. Casts become explicit nodes; nobody downstream knows of a
// policy.
//
//   parameters    keep f32 masters; a low-precision reader gets the shadow `<name>.bf16`, a derived
//                 state that the update rounds anew (passes/analysis/shadows.h; split-masters then
//                 keeps master and bf16 shadow as one)
//   kLow ops      low operands; low results, but f32 where the result is a parameter's gradient
//   kComputeInF32 ops  low operands and results; their expansion computes in f32 (ir/expand.h).
//                 Operands that the record calls `wide` (scales, statistics) stay f32, and results
//                 that its inference makes f32 (log-sum-exps, losses) are f32. Where all operands
//                 are f32 for good, they are read as they are, and the result alone is rounded
//   their gradients    the group of nodes computes in f32; what leaves it is rounded, parameter
//                 gradients excepted
//   elementwise   computes in f32 on widened operands. The result is rounded if an operand was low,
//                 unless one elementwise op or reduction alone reads it: user-written activations
//                 then round once, at the end
//   reductions    f32; so are segment sums
//   movement      in the dtype that its reader wants
//   biases        that a product's call can add (passes/fuse_epilogues.cc): of the shadow, as the
//                 call takes them, added in f32; not with strict numerics
//   gathers       of the shadow, where the data is a parameter
//   the update, losses, scalars, and scopes that match keep_f32: f32. What a kept scope reads of a
//                 gather, of a kComputeInF32 op with f32 operands, or of such an op's gradient, is
//                 not rounded: a kept residual stream is f32 from the embedding on, and so is its
//                 gradient
//
// Values that were not f32 to begin with are left alone. The f32 groups have served afterwards, and
// their facts go. Precision is read from op records; no op is named here.
#include "ir/base/error.h"
#include "ir/builder.h"
#include "ir/facts.h"
#include "passes/analysis/product_bias.h"
#include "passes/analysis/shadows.h"
#include "passes/passes.h"
#include "passes/precision_policy.h"

namespace stator {
namespace {

// How a value of the f32 graph is at hand in the new one.
struct Forms {
  Value wide, low;          // null until made
  bool has_wide = false;    // exists in f32 without rounding anything more
  bool has_low = false;     // exists rounded; both for parameters and constants
  bool activation = false;  // f32, and yet to be rounded where it is stored
  std::string phase;        // of `wide`, where that is a widening of `low`
  Value inside;             // f32, for readers of the same group
  int64_t group = -1;
  const Node* movement = nullptr;  // made on demand, in the dtype wanted
};

class Rewriter {
 public:
  Rewriter(Graph& graph, const PassOptions& options)
      : graph_(graph),
        low_(options.compute_dtype),
        strict_(options.numerics == Numerics::kStrict),
        policy_(graph, options),
        forms_(graph.max_id()),
        b_(graph) {}

  void Run() {
    for (const auto* params : {&graph_.inputs(), &graph_.states()}) {
      for (const Param& p : *params) DeclareParam(*p.node);
    }
    const std::vector<Node*> nodes = graph_.Nodes();
    for (Node* n : nodes) {
      Enter(*n, n);
      Rewrite(*n);
    }
    b_.SetInsertBefore(nullptr);
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      graph_.SetOutput(static_cast<int>(i), Leaving(graph_.outputs()[i].value));
    }
    for (const NextState& s : graph_.next_states()) {
      graph_.SetNextState(s.state->result(), Leaving(s.value));
    }
    for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) graph_.Erase(*it);
    graph_.EraseDead();
    UpdateShadows(graph_);
  }

 private:
  static bool Managed(Value v) { return v.dtype() == DType::kF32; }

  Forms& FormsOf(Value v) {
    auto& results = forms_[v.node->id()];
    if (results.empty()) results.resize(v.node->num_results());
    return results[v.index];
  }

  // New nodes go before `before`, in the scope of `n` and with its facts.
  void Enter(const Node& n, Node* before) {
    b_.SetInsertBefore(before);
    b_.SetScope(n.scope());
    b_.default_facts() = n.facts();
    b_.default_facts().erase(std::string(fact::kF32Group));
  }

  void DeclareParam(Node& n) {
    Forms& f = FormsOf(n.result());
    f.wide = n.result();
    f.has_wide = true;
    f.has_low = Managed(n.result()) && n.Is("state") && n.view().Str("role") == "parameter";
  }

  bool OnlyLow(Value v) { return Managed(v) && FormsOf(v).has_low && !FormsOf(v).has_wide; }
  bool IsActivation(Value v) { return OnlyLow(v) || (Managed(v) && FormsOf(v).activation); }

  // `v` as an operand in dtype `want`; values that are not f32 in the old graph come as they are.
  // What leaves the graph is f32 where it is a float.
  Value Leaving(Value v) {
    Enter(*v.node, nullptr);
    return Get(v, DType::kF32);
  }

  Value Get(Value v, DType want, int64_t group = -1) {
    if (!v) return v;
    Forms& f = FormsOf(v);
    if (!Managed(v)) return f.wide;
    if (f.inside && group >= 0 && f.group == group) return f.inside;
    if (want == DType::kF32 && !f.has_wide) return Widened(v, f);
    Value& form = want == low_ ? f.low : f.wide;
    if (form) return form;
    if (f.movement != nullptr) return form = Move(*f.movement, want);
    if (want == low_ && f.has_low) {
      return form = v.node->Is("state") ? ShadowOf(graph_, v, low_)
                                        : b_.Constant(v.node->view().Float("value"), low_);
    }
    STATOR_CHECK(want == low_ && f.wide, "no form of a result of ", v.node->op().name);
    return form = Round(f.wide);
  }

  // One cast a phase: widening again costs nothing, a f32 copy kept for the backward pass does.
  Value Widened(Value v, Forms& f) {
    const auto it = b_.default_facts().find(fact::kPhase);
    const std::string phase =
        it == b_.default_facts().end() ? "" : std::get<Symbol>(it->second).str();
    if (!f.wide || f.phase != phase) {
      f.wide = b_.Cast(Get(v, low_), DType::kF32);
      f.phase = phase;
    }
    return f.wide;
  }

  Value Move(const Node& n, DType want) {
    Values operands;
    for (const Value& v : n.operands()) operands.push_back(Get(v, want));
    const std::string scope = b_.scope();
    const AttrMap facts = b_.default_facts();
    Enter(n, b_.insert_before());
    const Value moved = b_.Create1(n.op().name, operands, n.attrs());
    b_.SetScope(scope);
    b_.default_facts() = facts;
    return moved;
  }

  Value Round(Value wide) { return b_.Cast(wide, low_); }

  void Rewrite(Node& n) {
    switch (policy_.PlaceOf(n)) {
      case Place::kWide:
        return Wide(n);
      case Place::kGroup:
        return InGroup(n);
      case Place::kNarrow:
        return Narrow(n);
      case Place::kElementwise:
        return Elementwise(n);
      case Place::kReduce:
        return Wide(n);
      case Place::kMovement:
        return Movement(n);
      case Place::kGather:
        return Follow(n, /*prefer_low=*/true);
      case Place::kFollow:
        return Follow(n, /*prefer_low=*/false);
    }
  }

  template <typename WantOf>
  Values Create(Node& n, const WantOf& want_of, AttrMap attrs, int64_t group = -1) {
    Values operands;
    for (int i = 0; i < n.num_operands(); ++i)
      operands.push_back(Get(n.operand(i), want_of(i), group));
    return b_.Create(n.op().name, operands, std::move(attrs));
  }

  // Results as they come: low ones are activations, f32 ones are to stay so.
  void Record(Node& n, const Values& results) {
    for (int i = 0; i < n.num_results(); ++i) {
      Forms& f = FormsOf(n.result(i));
      const bool low = Managed(n.result(i)) && results[i].dtype() == low_;
      (low ? f.low : f.wide) = results[i];
      (low ? f.has_low : f.has_wide) = true;
    }
  }

  void Wide(Node& n) {
    Record(n, Create(
                  n, [](int) { return DType::kF32; }, n.attrs()));
    // A constant is exact in f32 and rounded once where a low one is wanted.
    if (n.Is("constant")) FormsOf(n.result()).has_low = Managed(n.result());
  }

  void InGroup(Node& n) {
    const int64_t group = policy_.GroupOf(n);
    const Values results = Create(
        n, [](int) { return DType::kF32; }, n.attrs(), group);
    for (int i = 0; i < n.num_results(); ++i) {
      const Value v = n.result(i);
      Forms& f = FormsOf(v);
      f.inside = results[i];
      f.group = group;
      if (!Managed(v) || n.op_class() == OpClass::kReduce || v.type().NumElements() == 1 ||
          policy_.IsParameterGradient(v) || policy_.FeedsKept(v)) {
        f.wide = results[i];
        f.has_wide = true;
      } else {
        Leave(v, results[i]);
      }
    }
  }

  // A computed f32 value, rounded unless its one reader takes it as it is.
  void Leave(Value v, Value wide) {
    Forms& f = FormsOf(v);
    if (policy_.StaysInside(v)) {
      f.wide = wide;
      f.has_wide = f.activation = true;
    } else {
      f.low = Round(wide);
      f.has_low = true;
    }
  }

  // Whether operand `i` is one that this pass narrows.
  static bool IsNarrowed(const Node& n, int i) {
    const auto& operands = n.op().operands;
    return n.operand(i) && Managed(n.operand(i)) &&
           !operands[std::min<size_t>(i, operands.size() - 1)].wide;
  }

  // Whether an op that computes in f32 finds all that it would narrow in f32, and that for good.
  bool ReadsF32(const Node& n) {
    if (n.op().precision != Precision::kComputeInF32) return false;
    bool any = false;
    for (int i = 0; i < n.num_operands(); ++i) {
      if (!IsNarrowed(n, i)) continue;
      const Forms& f = FormsOf(n.operand(i));
      if (!f.has_wide || f.activation) return false;
      any = true;
    }
    return any;
  }

  // On f32 operands; the results that low ones would have given low are rounded.
  void ComputeInF32(Node& n) {
    Values operands, narrowed;
    for (int i = 0; i < n.num_operands(); ++i) {
      operands.push_back(Get(n.operand(i), DType::kF32));
      narrowed.push_back(IsNarrowed(n, i) ? Round(operands[i]) : operands[i]);
    }
    // Dead, and erased in the end: it is asked for its types.
    const Values when_low = b_.Create(n.op().name, narrowed, n.attrs());
    const Values results = b_.Create(n.op().name, operands, n.attrs());
    for (int i = 0; i < n.num_results(); ++i) {
      Forms& f = FormsOf(n.result(i));
      const bool rounds =
          Managed(n.result(i)) && when_low[i].dtype() == low_ && !policy_.FeedsKept(n.result(i));
      (rounds ? f.low : f.wide) = rounds ? Round(results[i]) : results[i];
      (rounds ? f.has_low : f.has_wide) = true;
    }
  }

  void Narrow(Node& n) {
    if (ReadsF32(n)) return ComputeInF32(n);
    AttrMap attrs = n.attrs();
    bool parameter_gradient = false;
    for (int i = 0; i < n.num_results(); ++i) {
      parameter_gradient = parameter_gradient || policy_.IsParameterGradient(n.result(i));
    }
    const auto out = attrs.find("out");
    const bool has_out = out != attrs.end() && std::holds_alternative<DType>(out->second);
    if (has_out && std::get<DType>(out->second) == DType::kF32 && !parameter_gradient) {
      out->second = low_;
    }
    Record(n,
           Create(
               n, [&](int i) { return IsNarrowed(n, i) ? low_ : DType::kF32; }, std::move(attrs)));
  }

  // Whether operand `i` is a bias that the product's own call will add: libraries want it in the
  // dtype of their result.
  bool IsProductBias(const Node& n, int i) {
    if (strict_ || !n.Is("add")) return false;
    const Value bias = n.operand(i), product = n.operand(1 - i);
    if (!Managed(bias) || product.node->op_class() != OpClass::kContraction) return false;
    const Value row = bias.node->op_class() == OpClass::kMovement ? bias.node->operand(0) : bias;
    const bool parameter = row.node->Is("state") && FormsOf(row).has_low;
    return parameter && row.type().rank() == 1 && row.shape()[0] == product.shape().back() &&
           OnlyUseOf(product).node == &n &&
           OnlyLibrariesRead(n.view().out(0), /*views_only=*/false);
  }

  void Elementwise(Node& n) {
    bool rounds = false;
    Values operands;
    for (int i = 0; i < n.num_operands(); ++i) {
      const Value v = n.operand(i);
      rounds = rounds || (v && IsActivation(v));
      operands.push_back(IsProductBias(n, i) ? b_.Cast(Get(v, low_), DType::kF32)
                                             : Get(v, DType::kF32));
    }
    const Values results = b_.Create(n.op().name, operands, n.attrs());
    for (int i = 0; i < n.num_results(); ++i) {
      const Value v = n.result(i);
      if (rounds && Managed(v) && !policy_.IsParameterGradient(v)) {
        Leave(v, results[i]);
      } else {
        FormsOf(v).wide = results[i];
        FormsOf(v).has_wide = true;
      }
    }
  }

  void Movement(Node& n) {
    if (!Managed(n.result())) return Wide(n);
    Forms f;
    f.has_wide = f.has_low = true;
    bool any_low = false;
    for (const Value& v : n.operands()) {
      const Forms& g = FormsOf(v);
      f.has_wide = f.has_wide && g.has_wide;
      f.has_low = f.has_low && g.has_low;
      any_low = any_low || OnlyLow(v);
    }
    if (any_low) f.has_wide = false, f.has_low = true;
    f.movement = &n;
    FormsOf(n.result()) = f;
  }

  void Follow(Node& n, bool prefer_low) {
    prefer_low = prefer_low && !policy_.FeedsKept(n.result());
    bool low = false;
    for (const Value& v : n.operands()) {
      low = low || (v && (IsActivation(v) || (prefer_low && Managed(v) && FormsOf(v).has_low)));
    }
    const DType want = low ? low_ : DType::kF32;
    Record(n, Create(
                  n, [want](int) { return want; }, n.attrs()));
  }

  Graph& graph_;
  const DType low_;
  const bool strict_;
  PrecisionPolicy policy_;
  std::vector<std::vector<Forms>> forms_;  // by id of the old node, and result
  Builder b_;
};

}  // namespace

void MixedPrecision(Graph& graph, const PassOptions& options) {
  if (options.compute_dtype == DType::kF32) {
    for (Node* n : graph.Nodes()) n->ClearFact(fact::kF32Group);
    return;
  }
  if (options.compute_dtype != DType::kBF16 && options.compute_dtype != DType::kF16) {
    Fail(ErrorCode::kInvalidArgument, "mixed precision computes in bf16 or f16, not ",
         Name(options.compute_dtype));
  }
  Rewriter(graph, options).Run();
}

}  // namespace stator
