// lower-views: marks the movement nodes that are strided windows on their operand's storage, and
// puts a copy where a consumer cannot take the window it is given. What is not a view is computed
// in place by whichever kernel reads it, or copied.
#include "ir/builder.h"
#include "ir/facts.h"
#include "ir/index_expr.h"
#include "ir/views.h"
#include "passes/passes.h"

namespace stator {
namespace {

// Strides of `shape` (dense over `from` with `strides`) where a reshape keeps a strided window;
// false when it cannot.
bool ReshapeStrides(const Dims& from, const Dims& strides, const Dims& to, Dims* out) {
  // Walk both shapes from the right over blocks of equal element count.
  out->assign(to.size(), 0);
  int i = static_cast<int>(from.size()) - 1, j = static_cast<int>(to.size()) - 1;
  while (j >= 0) {
    if (to[j] == 1) {
      --j;
      continue;
    }
    while (i >= 0 && from[i] == 1) --i;
    if (i < 0) return false;
    int64_t have = from[i], stride = strides[i], want = to[j];
    int64_t run = stride;
    (*out)[j] = run;
    run *= to[j];
    --j;
    --i;
    while (have != want) {
      if (have < want) {
        while (i >= 0 && from[i] == 1) --i;
        if (i < 0 || strides[i] != stride * have) return false;  // not one run
        have *= from[i];
        --i;
      } else {
        while (j >= 0 && to[j] == 1) --j;
        if (j < 0) return false;
        (*out)[j] = run;
        run *= to[j];
        want *= to[j];
        --j;
      }
    }
  }
  return true;
}

void MarkViews(Graph& graph) {
  for (Node* node : graph.Nodes()) {
    AffineMap map;
    if (!MovementMap(*node, &map) || node->type().NumElements() == 0) continue;
    const View under = ResolveView(node->operand(0));
    const Dims& from = node->operand(0).shape();
    Dims strides;
    int64_t at = under.at;
    if (map.flat) {
      if (!ReshapeStrides(from, under.strides, node->type().shape, &strides)) continue;
    } else if (node->Is("broadcast")) {
      const size_t extra = node->type().shape.size() - from.size();
      strides.assign(node->type().shape.size(), 0);
      for (size_t i = 0; i < from.size(); ++i) {
        const bool repeats = from[i] == 1 && node->type().shape[i + extra] != 1;
        strides[i + extra] = repeats ? 0 : under.strides[i];
      }
    } else if (node->Is("transpose")) {
      for (const int64_t p : node->view().Ints("permutation")) strides.push_back(under.strides[p]);
    } else {  // slice
      const Dims &starts = node->view().Ints("starts"), &steps = node->view().Ints("steps");
      for (size_t i = 0; i < from.size(); ++i) {
        strides.push_back(under.strides[i] * (steps.empty() ? 1 : steps[i]));
        at += under.strides[i] * starts[i];
      }
    }
    node->SetFact(fact::kView, true);
    node->SetFact(fact::kStrides, strides);
    if (at != 0) node->SetFact(fact::kViewOffset, at);
  }
}

// A reshape to the same shape without a view fact: computes, and so owns, its result.
Value InsertCopy(Graph& graph, Value v, Node* before) {
  Node* copy = graph.AddNode("reshape", {v}, {{"shape", v.shape()}}, v.node->scope(), before);
  if (v.node->HasFact(fact::kPhase)) copy->SetFact(fact::kPhase, v.node->StrFact(fact::kPhase));
  return copy->result();
}

// Matrix rows or columns contiguous, batch axes one stride apart.
bool MatMulTakes(const View& view, const Dims& shape) {
  const int r = static_cast<int>(shape.size());
  const int64_t rows = shape[r - 2], cols = shape[r - 1];
  const int64_t s0 = view.strides[r - 2], s1 = view.strides[r - 1];
  const bool row_major = (s1 == 1 || cols == 1) && (s0 >= cols || rows == 1);
  const bool column_major = (s0 == 1 || rows == 1) && (s1 >= rows || cols == 1);
  if (!row_major && !column_major) return false;
  for (int i = 0; i + 3 < r; ++i) {
    if (shape[i] != 1 && shape[i + 1] != 1 &&
        view.strides[i] != view.strides[i + 1] * shape[i + 1]) {
      return false;
    }
  }
  return true;
}

bool Takes(const Node& user, int operand, Value v) {
  const View view = ResolveView(v);
  switch (user.op_class()) {
    case OpClass::kContraction:
      return MatMulTakes(view, v.shape());
    case OpClass::kAttention:
      // Data tensors may be strided in all but the last axis; ids, lengths and statistics are
      // dense.
      if (v.type().rank() == 4) return view.strides[3] == 1 || v.shape()[3] == 1;
      return IsDense(view, v.shape());
    case OpClass::kScatter:
    case OpClass::kSort:
    case OpClass::kScan:
    case OpClass::kCustom:
      (void)operand;
      return IsDense(view, v.shape());
    default:
      return true;
  }
}

// Sorts run along the last axis; others are turned, sorted and turned back.
void TurnSort(Graph& graph, Node* node) {
  if (node->op_class() != OpClass::kSort) return;
  const int rank = node->type().rank(), axis = node->view().Axis("axis");
  if (axis == rank - 1) return;
  Dims turn;
  for (int k = 0; k < rank; ++k) turn.push_back(k == axis ? rank - 1 : k == rank - 1 ? axis : k);
  Builder b(graph, node);
  b.SetScope(node->scope());
  b.default_facts() = node->facts();
  AttrMap attrs = node->attrs();
  attrs["axis"] = int64_t{rank - 1};
  const Values sorted = b.Create(node->op().name, {b.Transpose(node->operand(0), turn)}, attrs);
  for (int i = 0; i < node->num_results(); ++i) {
    graph.ReplaceAllUses(node->result(i), b.Transpose(sorted[i], turn));
  }
  graph.Erase(node);
}

bool NeedsStorage(const Node& user) {
  switch (user.op_class()) {
    case OpClass::kContraction:
    case OpClass::kAttention:
    case OpClass::kScatter:
    case OpClass::kSort:
    case OpClass::kScan:
    case OpClass::kCustom:
      return true;
    default:
      return false;
  }
}

}  // namespace

void LowerViews(Graph& graph, const PassOptions&) {
  for (Node* node : graph.Nodes()) TurnSort(graph, node);
  MarkViews(graph);
  for (Node* node : graph.Nodes()) {
    if (!NeedsStorage(*node)) continue;
    for (int i = 0; i < node->num_operands(); ++i) {
      const Value v = node->operand(i);
      if (!v) continue;
      const Value base = ResolveView(v).base;
      // Constants and iotas have no storage: kernels write them as literals.
      const bool literal = base.node->op_class() == OpClass::kSource && !base.node->Is("input") &&
                           !base.node->Is("state");
      if (!Takes(*node, i, v) || literal) graph.SetOperand(node, i, InsertCopy(graph, v, node));
    }
  }
  // What leaves the graph is dense and computed: not a window, a literal or a parameter as it is.
  const auto leaving = [&](Value v) {
    const bool own = !IsViewNode(*v.node) && v.node->op_class() != OpClass::kSource;
    return own ? v : InsertCopy(graph, v, nullptr);
  };
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    graph.SetOutput(static_cast<int>(i), leaving(graph.outputs()[i].value));
  }
  for (const NextState& s : graph.next_states()) {
    if (s.value.node != s.state) graph.SetNextState(s.state->result(), leaving(s.value));
  }
}

}  // namespace stator
