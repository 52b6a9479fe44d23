#include "runtime/fused_attention.h"

#include "ir/base/str.h"

namespace stator {

std::string WhyNotFused(const AttentionQuery& q) {
  if (q.dtype != DType::kBF16 && q.dtype != DType::kF16) {
    return StrCat("cuDNN's attention takes bf16 and f16, not ", Name(q.dtype));
  }
  if (q.head_dim % 8 != 0) return StrCat("the head size must be a multiple of 8, got ", q.head_dim);
  if (q.kv_heads < 1 || q.heads % q.kv_heads != 0)
    return "query heads are no multiple of key heads";
  if (q.has_bias) return "an additive bias has no fused form yet";
  if (q.has_segments) return "segment ids have no fused form yet";
  if (q.dropout) return "cuDNN's dropout does not use Stator's counter";
  if (q.has_window && !q.causal) return "a window needs a causal mask";
  if (q.has_window && q.query_len > q.key_len) return "a window needs as many keys as queries";
  if (q.has_window && q.has_key_lengths) {
    return "a window beside key lengths leaves rows without keys, for which cuDNN gives NaN";
  }
  if (q.has_lse_gradient) return "cuDNN has no gradient of the log-sum-exp";
  if (q.causal && q.q_offset != 0) {
    if (q.has_key_lengths) return "cuDNN counts a query offset from the last key";
    if (q.q_offset != q.key_len - q.query_len) {
      return StrCat("the query offset ", q.q_offset, " fits neither corner of the mask");
    }
  }
  return "";
}

}  // namespace stator
