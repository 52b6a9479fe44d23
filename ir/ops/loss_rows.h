// The rows of a cross-entropy: what its records and those of the loss head share. Logits are wide
// [..,V]; targets, losses and cotangents are [..]. Attributes ignore_index, label_smoothing and
// z_loss are read from the op.
#pragma once

#include "ir/builder.h"
#include "ir/op_def.h"

namespace stator {

struct RowLosses {
  Value loss, lse;  // [..]
};
// With e the smoothing, z the z-loss factor, over V classes:
//   loss = lse - (1-e) x[t] - e/V sum(x) + z lse^2, and 0 for an ignored target.
RowLosses CrossEntropyRows(Builder& b, const OpView& op, Value logits, Value targets);

// (dloss (1 + 2 z lse) + dlse) softmax - dloss ((1-e) onehot + e/V), where the softmax is
// exp(x - lse), recomputed, and dloss is 0 for an ignored target. Either cotangent may be null.
Value CrossEntropyRowsGrad(Builder& b, const OpView& op, Value logits, Value targets, Value lse,
                           Value dloss, Value dlse);

// The same two in f64 over one row, for references. `dx` may be null: no gradient.
struct RowLoss {
  double loss, lse;
};
RowLoss CrossEntropyRow(const OpView& op, const double* x, int64_t classes, int64_t target,
                        double dloss = 0, double* dx = nullptr);

// Throws `Error` unless label_smoothing is in [0,1].
void CheckSmoothing(const OpView& op);

}  // namespace stator
