// Attention problems, a plan that runs them forward and backward, and their f64 reference.
#pragma once

#include "ir/target.h"
#include "tests/gpu/plan_maker.h"

#include <memory>
#include <string>
#include <vector>

namespace stator::gpu_test {

struct AttentionCase {
  std::string name;
  int64_t b = 2, h = 4, g = 4, t = 128, s = 128, d = 64;
  DType dtype = DType::kBF16;
  bool causal = false;
  int64_t window = 0;
  std::vector<double> key_lengths;  // one an entry; none: all keys
  bool packed = false;              // q, k, v (and their gradients) views of one tensor
  int64_t q_offset = 0;
  int64_t chunk = 0;       // batch entries a piece
  int64_t head_chunk = 0;  // key heads a piece, of one entry
  int64_t streams = 1;     // times the scratch one piece needs
  bool deterministic = true;
};

struct AttentionValues {
  std::vector<double> out, lse, dq, dk, dv;  // dense, in the plan's axes
};

struct AttentionPlan {
  PlanMaker plan{"attention"};
  AttentionCall forward, backward;
  std::vector<double> q, k, v, dout;  // dense
};

// Of one piece.
AttentionQuery QueryOf(const AttentionCase& c, bool backward);
// Scratch is what `target` says.
std::unique_ptr<AttentionPlan> BuildAttention(const AttentionCase& c, const Target& target);
AttentionValues ReadAttention(const AttentionPlan& plan, const OutputMap& out);
AttentionValues ReferenceAttention(const AttentionCase& c, const AttentionPlan& plan);

}  // namespace stator::gpu_test
