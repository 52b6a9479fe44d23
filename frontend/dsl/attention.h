// Attention over [B,T,C] and rotary position embedding. Heads stay where the packed projection left
// them, [B,T,heads,D]: no transposes.
#pragma once

#include "frontend/dsl/layers.h"

#include <optional>

namespace stator::dsl {

// Llama 3.1's stretching of low frequencies (`rope_type: llama3`).
struct RopeScaling {
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double original_context = 8192;
};

// cos and sin of position * theta^(-2i/D): f32 [T, D/2] each (Su et al. 2021).
struct RotaryTables {
  Tensor cos, sin;
};
RotaryTables MakeRotary(const Scope& s, int64_t positions, int64_t head_dim, double theta = 10000,
                        const std::optional<RopeScaling>& scaling = std::nullopt);
// x [B,T,H,D] with pairs rotated by their position's angle.
Tensor Rotary(const Tensor& x, const RotaryTables& tables, Location loc = Location::current());

// Everything of one scaled-dot-product attention but q, k and v.
struct AttentionOptions {
  bool causal = true;
  int64_t window = 0;    // keys more than this many positions back are not seen; 0: no limit
  double scale = 0;      // 0: 1/sqrt(D)
  int64_t q_offset = 0;  // position of the first query among the keys
  double dropout = 0;
  Tensor bias = {};                         // additive
  Tensor q_segments = {}, k_segments = {};  // i32 [B,T]: attention stays inside equal segments
  Tensor key_lengths = {};                  // i32 [B]
};
// q [B,T,H,D], k and v [B,S,G,D], H a multiple of G -> [B,T,H,D].
Tensor DotProductAttention(const Scope& s, const Tensor& q, const Tensor& k, const Tensor& v,
                           const AttentionOptions& options = {});

struct AttentionConfig {
  int64_t heads = 1;
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t head_dim = 0;  // 0: width / heads
  bool qkv_bias = true, proj_bias = true;
  bool qk_norm = false;  // RMS norm over D of q and k, before the rotation (Qwen3)
  double norm_eps = 1e-6;
  std::optional<RotaryTables> rotary = {};
  std::string init = {}, init_proj = {}, bias_init = {};
  double dropout = 0;       // of the attention weights
  double proj_dropout = 0;  // of the result
  AttentionOptions options = {};
};
// Self-attention of x [B,T,C]. s/qkv is one projection of (H+2G)*D rows: q's heads, then k's, then
// v's; s/proj [C, H*D].
Tensor Attention(const Scope& s, const Tensor& x, const AttentionConfig& config);

}  // namespace stator::dsl
