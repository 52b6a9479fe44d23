// Llama (Touvron et al. 2023, Llama 3) and its relatives: Qwen2 adds biases to q, k and v, Qwen3
// norms q and k instead. RMS norms, rotary positions, grouped queries, SwiGLU.
//
// Parameters, with C = n_embd, H = n_head, G = n_kv_head, D = head_dim, F = ffn_dim, and their
// names in a Hugging Face checkpoint:
//   embed/w [V,C]                    model.embed_tokens.weight
//   h.i/attn_norm/w [C]              model.layers.i.input_layernorm.weight
//   h.i/attn/qkv/w [(H+2G)*D,C]      model.layers.i.self_attn.{q,k,v}_proj.weight, stacked
//   h.i/attn/qkv/b                   ... .bias, stacked (qkv_bias)
//   h.i/attn/{q,k}_norm/w [D]        model.layers.i.self_attn.{q,k}_norm.weight (qk_norm)
//   h.i/attn/proj/w [C,H*D]          model.layers.i.self_attn.o_proj.weight
//   h.i/mlp_norm/w [C]               model.layers.i.post_attention_layernorm.weight
//   h.i/mlp/gate_up/w [2F,C]         model.layers.i.mlp.{gate,up}_proj.weight, stacked
//   h.i/mlp/down/w [C,F]             model.layers.i.mlp.down_proj.weight
//   norm/w [C]                       model.norm.weight
//   lm_head/w [V,C]                  lm_head.weight, where the head is not tied
#pragma once

#include "frontend/dsl/attention.h"
#include "frontend/dsl/loss.h"
#include "frontend/dsl/models/weight_names.h"

#include <optional>
#include <string_view>
#include <vector>

namespace stator::dsl {

struct LlamaConfig {
  int64_t n_layer = 16;
  int64_t n_head = 32;
  int64_t n_kv_head = 8;
  int64_t n_embd = 2048;
  int64_t head_dim = 0;  // 0: n_embd / n_head
  int64_t ffn_dim = 8192;
  int64_t vocab_size = 128256;
  double rope_theta = 500000;
  std::optional<RopeScaling> rope_scaling = {};
  double norm_eps = 1e-5;
  bool tied_head = true;
  bool qkv_bias = false;  // Qwen2
  bool qk_norm = false;   // Qwen3
  double init_std = 0.02;
};

// "llama-3.2-1b", "llama-3.2-3b", "llama-3.1-8b", "qwen2.5-0.5b", "qwen3-0.6b"; throws `Error` for
// another name.
LlamaConfig LlamaConfigNamed(std::string_view name);

// tokens i32 [B,T] -> logits [B,T,V].
Tensor LlamaLogits(const Scope& s, const Tensor& tokens, const LlamaConfig& config);
// Mean cross-entropy of the next token; targets i32 [B,T].
Loss LlamaLoss(const Scope& s, const Tensor& tokens, const Tensor& targets,
               const LlamaConfig& config, const CrossEntropyOptions& options = {});

std::vector<WeightSource> LlamaWeightSources(const LlamaConfig& config);

}  // namespace stator::dsl
