// autodiff: adds the gradients of output "loss" by every trainable state as outputs grad/<name>.
//
// Nodes are visited once, last to first. By then all uses of a node's results have been visited, so
// their contributions are complete and are added up; the node's record then says what its operands
// get. Nodes that the loss does not need, or that no parameter reaches, are passed over.
//
// A gradient built for an op that computes in f32 is f32 inside as well. Its nodes carry one number
// as their `f32` fact, by which mixed-precision knows them as one group.
#include "passes/autodiff.h"

#include "ir/base/error.h"
#include "ir/builder.h"
#include "ir/expand.h"
#include "ir/facts.h"
#include "ir/training.h"
#include "passes/analysis/loss_scaling.h"
#include "passes/passes.h"

#include <algorithm>

namespace stator {
namespace {

bool HasFloatResult(const Node& n) {
  for (int i = 0; i < n.num_results(); ++i) {
    if (IsFloat(n.type(i).dtype)) return true;
  }
  return false;
}

// Whether an op without a gradient may stand on the way: its derivative is zero where it exists.
bool IsPiecewiseConstant(const Node& n) {
  return n.op_class() == OpClass::kElementwise || n.op_class() == OpClass::kRandom ||
         n.op_class() == OpClass::kSource || !HasFloatResult(n);
}

// Gradients of slices are padded with zeros. Where the windows of `parts` lie side by side along
// one axis, as those of a split tensor do, their sum is a concatenation, gaps filled with zeros.
// Null where it is not.
Value Concatenated(Builder& b, const Values& parts) {
  const Dims& shape = parts[0].shape();
  int axis = -1;
  for (const Value& v : parts) {
    if (!v.node->Is("pad") || v.node->view().Float("value") != 0) return {};
    if (!v.node->view().Ints("interior").empty()) return {};
    for (int k = 0; k < v.type().rank(); ++k) {
      if (v.node->operand(0).shape()[k] == shape[k]) continue;
      if (axis >= 0 && axis != k) return {};
      axis = k;
    }
  }
  if (axis < 0) return {};
  const auto start = [axis](Value v) { return v.node->view().Ints("low")[axis]; };
  Values in_order = parts;
  std::stable_sort(in_order.begin(), in_order.end(),
                   [&](Value x, Value y) { return start(x) < start(y); });
  Values pieces;
  int64_t at = 0;
  const auto fill = [&](int64_t until) {
    Dims gap = shape;
    gap[axis] = until - at;
    if (gap[axis] > 0) pieces.push_back(b.Constant(0, parts[0].dtype(), gap));
  };
  for (const Value& v : in_order) {
    if (start(v) < at) return {};
    fill(start(v));
    pieces.push_back(v.node->operand(0));
    at = start(v) + v.node->operand(0).shape()[axis];
  }
  fill(shape[axis]);
  return b.Concat(pieces, axis);
}

class Differentiator {
 public:
  Differentiator(Graph& graph, Value loss, Values wrt)
      : graph_(graph), b_(graph), loss_(loss), wrt_(std::move(wrt)) {
    b_.default_facts()[std::string(fact::kPhase)] = std::string("backward");
    for (const Node* n : graph.Nodes()) {
      next_group_ = std::max(next_group_, n->IntFact(fact::kF32Group, 0) + 1);
    }
    FindReached();
    while (ExpandOneWithoutGradient()) FindReached();
  }

  Values Run(Value seed) {
    pending_.resize(graph_.max_id());
    const std::vector<Node*> nodes = graph_.Nodes();  // gradients come after all of these
    if (!seed) {
      b_.SetScope(loss_.node->scope());
      seed = b_.ConstantLike(1, loss_);
    }
    Contribute(loss_, seed);
    for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
      if (reached_[(*it)->id()] == kThrough) Visit(**it);
    }
    Values gradients;
    for (const Value& v : wrt_) gradients.push_back(Total(v));
    return gradients;
  }

 private:
  enum Reach : char { kNot, kStart, kThrough };

  // Fills reached_, by node id: whether the node is one of wrt_, or a float path leads to it from
  // one.
  void FindReached() {
    reached_.assign(graph_.max_id(), kNot);
    for (const Value& v : wrt_) reached_[v.node->id()] = kStart;
    for (const Node* n : graph_.Nodes()) {
      if (!HasFloatResult(*n)) continue;
      for (const Value& v : n->operands()) {
        if (v && IsFloat(v.dtype()) && reached_[v.node->id()]) reached_[n->id()] = kThrough;
      }
    }
  }

  // Composites whose record has no gradient are differentiated through their definition.
  bool ExpandOneWithoutGradient() {
    for (Node* n : graph_.Nodes()) {
      if (reached_[n->id()] != kThrough || n->op().grad || !n->op().expand) continue;
      Builder b(graph_, n);
      b.default_facts() = n->facts();
      const Values results = ExpandNode(b, *n);
      for (int i = 0; i < n->num_results(); ++i) {
        graph_.ReplaceAllUses(n->result(i), results[i]);
        if (loss_ == n->result(i)) loss_ = results[i];
        std::replace(wrt_.begin(), wrt_.end(), n->result(i), results[i]);
      }
      graph_.Erase(n);
      return true;
    }
    return false;
  }

  void Visit(Node& n) {
    Values dy;
    bool any = false;
    b_.SetScope(n.scope());
    for (int i = 0; i < n.num_results(); ++i) {
      dy.push_back(Total(n.result(i)));
      any = any || dy.back();
    }
    if (!any) return;
    if (!n.op().grad) {
      if (IsPiecewiseConstant(n)) return;
      Fail(ErrorCode::kUnsupported, n.view().Where(), ": the op has no gradient");
    }
    const bool f32 = n.op().precision == Precision::kComputeInF32;
    if (f32) b_.default_facts()[std::string(fact::kF32Group)] = next_group_++;
    const Values gradients = n.op().grad(b_, n.view(), dy);
    b_.default_facts().erase(std::string(fact::kF32Group));
    STATOR_CHECK(static_cast<int>(gradients.size()) == n.num_operands(), n.op().name,
                 ": gradient gives ", gradients.size(), " values for ", n.num_operands(),
                 " operands");
    for (int i = 0; i < n.num_operands(); ++i) {
      const Value v = n.operand(i);
      if (!v || !gradients[i] || !IsFloat(v.dtype()) || !reached_[v.node->id()]) continue;
      STATOR_CHECK(gradients[i].type() == v.type(), n.op().name, ": gradient of operand ", i,
                   " is ", gradients[i].type().ToString(), ", the operand ", v.type().ToString());
      Contribute(v, gradients[i]);
    }
  }

  void Contribute(Value to, Value gradient) {
    auto& results = pending_[to.node->id()];
    results.resize(to.node->num_results());
    results[to.index].push_back(gradient);
  }

  // The sum of the contributions in the order they came; null when there is none.
  Value Total(Value v) {
    auto& results = pending_[v.node->id()];
    if (results.empty() || results[v.index].empty()) return {};
    Values& parts = results[v.index];
    Value total = parts.size() > 1 ? Concatenated(b_, parts) : parts[0];
    if (!total) {
      total = parts[0];
      for (size_t i = 1; i < parts.size(); ++i) total = b_.Add(total, parts[i]);
    }
    parts = {total};
    return total;
  }

  Graph& graph_;
  Builder b_;
  Value loss_;
  Values wrt_;
  std::vector<Reach> reached_;
  std::vector<std::vector<Values>> pending_;  // by node id and result
  int64_t next_group_ = 1;
};

Value FindOutput(const Graph& graph, std::string_view name) {
  for (const Output& o : graph.outputs()) {
    if (o.name == name) return o.value;
  }
  return {};
}

}  // namespace

Values Gradients(Graph& graph, Value loss, const Values& wrt, Value seed) {
  if (seed && seed.type() != loss.type()) {
    Fail(ErrorCode::kInvalidArgument, "gradients: the seed is ", seed.type().ToString(),
         ", the loss ", loss.type().ToString());
  }
  return Differentiator(graph, loss, wrt).Run(seed);
}

void Autodiff(Graph& graph, const PassOptions& options) {
  const Value loss = FindOutput(graph, training::kLoss);
  if (!loss || loss.type() != Type{DType::kF32, {}}) {
    Fail(ErrorCode::kInvalidArgument, "autodiff: ", graph.name(), " has no output loss of f32[]");
  }
  std::vector<std::string> names;
  Values parameters;
  for (const Param& p : graph.states()) {
    if (!p.node->view().Bool("trainable")) continue;
    if (!IsFloat(p.node->type().dtype)) {
      Fail(ErrorCode::kInvalidArgument, "parameter ", p.name, " is ", p.node->type().ToString(),
           "; only floats are trainable");
    }
    names.push_back(p.name);
    parameters.push_back(p.node->result());
  }
  for (Node* n : graph.Nodes()) {
    if (!n->HasFact(fact::kPhase)) n->SetFact(fact::kPhase, std::string("forward"));
  }
  // Several micro-batches add up gradients weighted by their token counts; the update divides.
  Value seed = options.micro_batches > 1 ? FindOutput(graph, training::kWeight) : Value{};
  Builder b(graph);
  b.default_facts()[std::string(fact::kPhase)] = std::string("backward");
  if (ScalesLoss(options)) {
    const Value scale = LossScale(graph, options);
    seed = seed ? b.Mul(seed, scale) : scale;
  }
  const Values gradients = Gradients(graph, loss, parameters, seed);

  for (size_t i = 0; i < parameters.size(); ++i) {
    const Value g = gradients[i] ? b.Cast(gradients[i], DType::kF32)
                                 : b.Constant(0, DType::kF32, parameters[i].shape());
    graph.AddOutput(StrCat(training::kGradPrefix, names[i]), g);
  }
  graph.EraseDead();
}

}  // namespace stator
