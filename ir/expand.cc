#include "ir/expand.h"

#include "ir/base/error.h"

namespace stator {

Values ExpandNode(Builder& b, const Node& node) {
  const OpDef& op = node.op();
  STATOR_CHECK(static_cast<bool>(op.expand), op.name, " has no expansion");
  const std::string outer_scope = b.scope();
  b.SetScope(node.scope());
  std::vector<Value> operands(node.operands().begin(), node.operands().end());
  if (op.precision == Precision::kComputeInF32) {
    for (Value& v : operands) {
      if (v && IsFloat(v.dtype())) v = b.Cast(v, ComputeType(v.dtype()));
    }
  }
  // Expansions read operands through the view alone; `node` still answers for result types.
  Values results = op.expand(b, OpView(op, operands, node.attrs(), &node));
  STATOR_CHECK(static_cast<int>(results.size()) == node.num_results(), op.name,
               ": expansion gives ", results.size(), " results");
  for (int i = 0; i < node.num_results(); ++i) {
    results[i] = b.Cast(results[i], node.type(i).dtype);
    STATOR_CHECK(results[i].type() == node.type(i), op.name, ": expansion gives ",
                 results[i].type().ToString(), ", inference ", node.type(i).ToString());
  }
  b.SetScope(outer_scope);
  return results;
}

}  // namespace stator
