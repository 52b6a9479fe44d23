// fuse-epilogues: leaves to a matrix product's library call what it does on its way out for less
// than a kernel of its own would cost.
//
//   bias        cast(add(cast(product), bias)) where libraries alone read the sum. One rounding
//               instead of two. A bias that a fused kernel would add while it reads stays there.
//   accumulate  add(state, product) that is the state's next value, or add(sum, product) with the
//   sum
//               of products before, which nothing else reads; in f32: beta = 1, in place where
//               plan-memory finds that the old value is not needed any more.
//   accumulate  likewise add(sum of products, segment_sum): the gradient of tied embeddings. Only
//   the rows
//               that are read are touched.
//
// What goes into the call carries fact `joins`, the call fact `epilogue`. Those on products are
// `tolerance` (DESIGN section 5): strict numerics leave them out.
#include "ir/facts.h"
#include "ir/views.h"
#include "passes/analysis/product_bias.h"
#include "passes/analysis/small_product.h"
#include "passes/passes.h"

#include <set>

namespace stator {
namespace {

bool IsRow(const View& view, const Dims& shape) {
  const size_t last = shape.size() - 1;
  for (size_t i = 0; i < last; ++i) {
    if (shape[i] != 1 && view.strides[i] != 0) return false;
  }
  return view.at == 0 && (view.strides[last] == 1 || shape[last] == 1);
}

bool IsStored(const Node& node) { return node.Is("state") || node.Is("input"); }

// The stored row [N] in `dtype` that `bias` [M, N] repeats, with the cast on the way, if any.
struct BiasRow {
  Value row;
  Node* cast = nullptr;
};

BiasRow FindBias(Value bias, DType dtype) {
  View view = ResolveView(bias);
  bool repeats = IsRow(view, bias.shape());
  BiasRow out;
  if (view.base.node->Is("cast")) {
    // The call widens it: nobody else may want the cast.
    out.cast = view.base.node;
    for (Value v = out.cast->result(); v != bias;) {
      const Use use = OnlyUseOf(v);
      if (use.node == nullptr) return {};
      v = use.node->result();
    }
    if (OnlyUseOf(bias).node == nullptr) return {};
    const Value inner = out.cast->operand(0);
    const View under = ResolveView(inner);
    if (repeats ? !IsDense(under, inner.shape()) : !IsDense(view, bias.shape())) return {};
    repeats = repeats || IsRow(under, inner.shape());
    view = under;
  }
  const Type& type = view.base.type();
  if (!repeats || !IsStored(*view.base.node) || type.dtype != dtype) return {};
  if (type.NumElements() != bias.shape().back()) return {};
  out.row = view.base;
  return out;
}

bool TakeBias(Node* product) {
  const DType dtype = product->type().dtype;
  if (product->type().rank() != 2) return false;
  Use use = OnlyUseOf(product->result());
  Node* widened = nullptr;
  if (use.node != nullptr && use.node->Is("cast") && dtype != DType::kF32 &&
      use.node->type().dtype == DType::kF32) {
    widened = use.node;
    use = OnlyUseOf(widened->result());
  }
  if (use.node == nullptr || !use.node->Is("add")) return false;
  Node *sum = use.node, *narrowed = nullptr;
  if (sum->type().shape != product->type().shape) return false;
  if (widened != nullptr) {
    narrowed = OnlyUseOf(sum->result()).node;
    if (narrowed == nullptr || !narrowed->Is("cast") || narrowed->type().dtype != dtype)
      return false;
  }
  Node* last = narrowed != nullptr ? narrowed : sum;
  if (!OnlyLibrariesRead(last->result(), /*views_only=*/true)) return false;
  const BiasRow bias = FindBias(sum->operand(1 - use.operand), dtype);
  if (!bias.row) return false;
  if (widened != nullptr) widened->SetFact(fact::kJoins, int64_t{0});
  sum->SetFact(fact::kJoins, int64_t{use.operand});
  if (narrowed != nullptr) narrowed->SetFact(fact::kJoins, int64_t{0});
  if (bias.cast != nullptr) bias.cast->SetFact(fact::kInline, true);
  product->SetFact(fact::kEpilogue, std::string("bias"));
  return true;
}

// Whether `sum` makes the next value of the state `addend`, and of nothing else.
bool IsStateUpdate(const Graph& graph, Value addend, const Node& sum) {
  return addend.node->Is("state") && sum.uses().empty() &&
         graph.FindNextState(addend.node) == sum.view().out(0);
}

// Whether `addend` is a product, or one with others added, that `sum` alone reads. Products join in
// the order in which they come: `before` are those seen so far.
bool IsPartialSum(Value addend, const std::set<const Node*>& before) {
  const Node* call =
      addend.node->op_class() == OpClass::kContraction ? addend.node : JoinedCall(*addend.node);
  return call != nullptr && before.contains(call) && OnlyUseOf(addend).node != nullptr;
}

// The sum's bits stay as they are: it is folded first and then added.
void TakeSegments(Node* segments, const std::set<const Node*>& before) {
  const Use use = OnlyUseOf(segments->result());
  if (use.node == nullptr || !use.node->Is("add") || !IsFloat(segments->type().dtype)) return;
  const Value addend = use.node->operand(1 - use.operand);
  if (addend.type() != segments->type() || ByteWidth(addend.dtype()) < 4 ||
      !IsPartialSum(addend, before))
    return;
  use.node->SetFact(fact::kJoins, int64_t{use.operand});
  segments->SetFact(fact::kEpilogue, std::string("accumulate"));
}

bool TakeAccumulation(Graph& graph, Node* product, const std::set<const Node*>& before) {
  if (product->type().dtype != DType::kF32) return false;
  const Use use = OnlyUseOf(product->result());
  if (use.node == nullptr || !use.node->Is("add")) return false;
  const Value addend = use.node->operand(1 - use.operand);
  if (addend.type() != product->type()) return false;
  if (!IsStateUpdate(graph, addend, *use.node) && !IsPartialSum(addend, before)) return false;
  use.node->SetFact(fact::kJoins, int64_t{use.operand});
  product->SetFact(fact::kEpilogue, std::string("accumulate"));
  return true;
}

}  // namespace

void FuseEpilogues(Graph& graph, const PassOptions& options) {
  // Whether regions fuse or not: then both plans give the same bits.
  const bool strict = options.numerics == Numerics::kStrict;
  std::set<const Node*> seen;
  for (Node* node : graph.Nodes()) {
    if (node->Is("segment_sum")) TakeSegments(node, seen);
    if (strict || node->op_class() != OpClass::kContraction || node->type().NumElements() == 0 ||
        node->operand(0).type().NumElements() == 0) {
      continue;
    }
    const bool own =
        TakesSmallProducts(options) && SmallTileOf(*node, 0);  // whose kernel adds what it likes
    if (own || !TakeBias(node)) TakeAccumulation(graph, node, seen);
    seen.insert(node);
  }
}

}  // namespace stator
