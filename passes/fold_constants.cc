// fold-constants: computes what is known when compiling. Constants are scalars, so only results
// whose elements are all equal can be folded: elementwise ops on splats (a scalar, perhaps moved
// about), movement of splats, and small reductions of them. The interpreter does the arithmetic, so
// a folded value is what the op's definition gives.
#include "ir/base/error.h"
#include "ir/builder.h"
#include "ir/interpreter.h"
#include "passes/analysis/splat.h"
#include "passes/passes.h"

#include <cmath>

namespace stator {
namespace {

// Reductions of more elements are left to the device.
constexpr int64_t kMostElements = 4096;

bool AllSplats(const Node& n) {
  for (const Value& v : n.operands()) {
    if (v && !SplatOf(v)) return false;
  }
  return n.num_operands() > 0;
}

// Every operand filled with its splat, in `shapes` of their own or as scalars.
std::optional<double> Evaluate(const Node& n, bool as_scalars) {
  std::vector<Tensor> tensors;
  std::vector<const Tensor*> operands;
  tensors.reserve(n.num_operands());
  for (const Value& v : n.operands()) {
    if (!v) {
      operands.push_back(nullptr);
      continue;
    }
    Tensor& t = tensors.emplace_back(as_scalars ? Type{v.dtype(), {}} : v.type());
    for (int64_t k = 0; k < t.size(); ++k) t.Set(k, *SplatOf(v));
    operands.push_back(&t);
  }
  const std::vector<Tensor> results = EvaluateNode(n, operands);
  if (results[0].size() == 0) return std::nullopt;
  const double value = results[0].Get(0);
  for (int64_t k = 1; k < results[0].size(); ++k) {
    if (results[0].Get(k) != value) return std::nullopt;  // NaN is not folded either
  }
  return value;
}

// A scalar twin of an elementwise node, evaluated and taken away again.
std::optional<double> EvaluateElement(Graph& graph, const Node& n, Node* before) {
  Builder b(graph, before);
  Values scalars;
  for (const Value& v : n.operands()) {
    scalars.push_back(v ? b.Constant(*SplatOf(v), v.dtype()) : Value{});
  }
  Node* twin = graph.AddNode(n.op().name, scalars, n.attrs(), n.scope(), before);
  const std::optional<double> value = Evaluate(*twin, /*as_scalars=*/true);
  graph.Erase(twin);
  for (const Value& v : scalars) {
    if (v) graph.Erase(v.node);
  }
  return value;
}

std::optional<double> Fold(Graph& graph, Node* n) {
  switch (n->op_class()) {
    case OpClass::kElementwise:
      return EvaluateElement(graph, *n, n);
    case OpClass::kMovement:
      return SplatOf(n->result());
    case OpClass::kReduce: {
      if (n->operand(0).type().NumElements() > kMostElements) return std::nullopt;
      return Evaluate(*n, /*as_scalars=*/false);
    }
    default:
      return std::nullopt;
  }
}

// Whether `n` is already the form that folding gives.
bool IsFolded(const Node& n) {
  return n.op_class() == OpClass::kMovement && n.num_operands() == 1 && n.Is("broadcast") &&
         n.operand(0).node->Is("constant");
}

bool FitsConstant(DType dtype, double value) {
  // Constants hold their number as f64: integers beyond 2^53 would be rounded.
  return IsFloat(dtype) || std::abs(value) <= 9007199254740992.0;
}

}  // namespace

void FoldConstants(Graph& graph, const PassOptions&) {
  for (Node* n : graph.Nodes()) {
    if (n->num_results() != 1 || !AllSplats(*n) || IsFolded(*n)) continue;
    if (n->type().NumElements() == 0) continue;
    const std::optional<double> value = Fold(graph, n);
    if (!value || !FitsConstant(n->type().dtype, *value)) continue;
    Builder b(graph, n);
    b.SetScope(n->scope());
    b.default_facts() = n->facts();
    graph.ReplaceAllUses(n->result(), b.Constant(*value, n->type().dtype, n->type().shape));
    graph.Erase(n);
  }
  graph.EraseDead();
}

}  // namespace stator
