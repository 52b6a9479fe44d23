// An attention problem as cuDNN sees it: one piece of a call, in its axes [B,H,T,D].
#pragma once

#include "codegen/plan.h"

#include <cstdint>
#include <string>

namespace stator {

struct HeadStrides {
  int64_t b = 0, h = 0, t = 0;  // elements; the head dimension is dense
};

struct AttentionProblem {
  bool backward = false, stats = true, deterministic = true;
  int64_t batch = 0, heads = 0, kv_heads = 0, query_len = 0, key_len = 0, head_dim = 0;
  DType dtype = DType::kBF16;
  bool causal = false, bottom_right = false, key_lengths = false;
  int64_t window = 0;
  double scale = 1;
  HeadStrides q, k, v, out, dout, dq, dk, dv;

  std::string Key() const;
};

// A problem with dense [B,T,H,D] tensors; the scratch it wants does not depend on strides.
AttentionProblem ProblemOf(const AttentionQuery& query);

// The call's problem for `batch` of its entries and `kv_heads` of its key heads, each with its
// query heads; fewer than all of them only with one entry, since the log-sum-exp of a problem is
// dense. Tensors are q [B,T,H,D], k and v [B,S,G,D], lse [B,H,T] dense. Throws `Error` with `name`
// for what has no fused form.
AttentionProblem ProblemOf(const AttentionCall& call, int64_t batch, int64_t kv_heads,
                           const std::string& name);

}  // namespace stator
