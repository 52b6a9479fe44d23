// split-reductions: rewrites every reduce op into `fold`s, one run of axes and one level of
// ir/reduce_tree.h each, so that two-stage reductions are two nodes and need no hidden scratch.
#include "ir/base/error.h"
#include "ir/builder.h"
#include "ir/ops/reduce_reference.h"
#include "ir/reduce_tree.h"
#include "passes/passes.h"

namespace stator {
namespace {

const char* KindName(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
      return "sum";
    case ReduceKind::kProd:
      return "prod";
    case ReduceKind::kMax:
      return "max";
    case ReduceKind::kMin:
      return "min";
    case ReduceKind::kAny:
      return "any";
    case ReduceKind::kAll:
      return "all";
    case ReduceKind::kLogSumExp:
      return "logsumexp";
    case ReduceKind::kNone:
      break;
  }
  return "";
}

// All levels of one run.
Value FoldRun(Builder& b, Value x, const ReducedRun& run, const char* kind) {
  x = b.Reshape(x, {run.outer, run.n, run.inner});
  // A run of size 1 still widens to the accumulator, so at least one fold is made.
  do {
    const int64_t length = x.shape()[1];
    const int64_t chunk =
        run.inner == 1 ? std::min(RowBlock(run.outer), length) : ColumnChunk(length);
    x = b.Create1("fold", {x}, {{"kind", std::string(kind)}, {"chunk", chunk}});
  } while (x.shape()[1] > 1);
  return x;
}

void SplitNode(Graph& graph, Node* node) {
  Builder b(graph, node);
  b.SetScope(node->scope());
  b.default_facts() = node->facts();
  const ReduceKind kind = node->op().reduce;
  const Type& type = node->operand(0).type();
  Value x = node->operand(0);
  Value result;
  if (type.NumElements() == 0) {
    result = b.Constant(ReduceIdentity(kind, type.dtype), type.dtype, node->type().shape);
  } else {
    for (const ReducedRun& run : ReducedRuns(type.shape, node->view().Ints("axes"))) {
      x = FoldRun(b, x, run, KindName(kind));
    }
    result = b.Cast(b.Reshape(x, node->type().shape), node->type().dtype);
  }
  graph.ReplaceAllUses(node->result(), result);
  graph.Erase(node);
}

}  // namespace

void SplitReductions(Graph& graph, const PassOptions&) {
  for (Node* node : graph.Nodes()) {
    if (node->op_class() == OpClass::kReduce && node->op().reduce != ReduceKind::kNone) {
      SplitNode(graph, node);
    }
  }
  graph.EraseDead();
}

}  // namespace stator
