#include "passes/analysis/attention_query.h"

namespace stator {
namespace {

bool HasOperand(const Node& node, std::string_view name) {
  const int i = node.op().FindOperand(name);
  return i >= 0 && i < node.num_operands() && node.operand(i);
}

}  // namespace

AttentionQuery QueryOf(const Node& node, const PassOptions& options) {
  const Type &q = node.operand(0).type(), &k = node.operand(1).type();
  const OpView op = node.view();
  return {.batch = q.dim(0),
          .heads = q.dim(2),
          .kv_heads = k.dim(2),
          .query_len = q.dim(1),
          .key_len = k.dim(1),
          .head_dim = q.dim(3),
          .dtype = q.dtype,
          .causal = op.Bool("causal"),
          .has_window = op.Int("window") != 0,
          .has_bias = HasOperand(node, "bias"),
          .has_segments = HasOperand(node, "q_segments"),
          .has_key_lengths = HasOperand(node, "key_lengths"),
          .dropout = op.Float("dropout") > 0,
          .backward = node.op().FindOperand("dout") >= 0,
          .deterministic = !options.fast,
          .has_lse_gradient = HasOperand(node, "dlse"),
          .q_offset = op.Int("q_offset")};
}

}  // namespace stator
