// What the records, the expansion and the reference of attention share.
#pragma once

#include "ir/ops/helpers.h"

namespace stator {

// Operands of `attention`, and where `attention_grad` has them.
struct AttentionOperands {
  int q, k, v, bias, q_segments, k_segments, key_lengths, seed, step;
};
inline constexpr AttentionOperands kForward = {0, 1, 2, 3, 4, 5, 6, 7, 8};
inline constexpr AttentionOperands kBackward = {0, 1, 2, 7, 8, 9, 10, 11, 12};
// attention_grad's own: (q, k, v, out, lse, dout, dlse?, ...).
inline constexpr int kOut = 3, kLse = 4, kDout = 5, kDlse = 6;

struct AttentionDims {
  int64_t batch, queries, heads, head_dim, keys, groups;  // B T H D S G
  double scale;
};

// Throws `Error` for operands that do not fit together.
AttentionDims CheckAttention(const OpView& op, const AttentionOperands& at);

Values ExpandAttention(Builder& b, const OpView& op);
Values ExpandAttentionGrad(Builder& b, const OpView& op);
void AttentionReference(const OpView& op, Operands in, Results out);
void AttentionGradReference(const OpView& op, Operands in, Results out);

}  // namespace stator
