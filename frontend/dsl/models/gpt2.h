// GPT-2 (Radford et al. 2019): learned positions, pre-norm blocks, GELU, a head tied to the token
// embedding.
//
// Parameters, with N = n_layer, C = n_embd, V = vocab_size, and their names in a Hugging Face
// checkpoint (T: stored transposed):
//   wte/w [V,C]                      transformer.wte.weight
//   wpe/w [block_size,C]             transformer.wpe.weight
//   h.i/ln_1/{w,b} [C]               transformer.h.i.ln_1.{weight,bias}
//   h.i/attn/qkv/{w,b} [3C,C]        transformer.h.i.attn.c_attn.{weight T,bias}
//   h.i/attn/proj/{w,b} [C,C]        transformer.h.i.attn.c_proj.{weight T,bias}
//   h.i/ln_2/{w,b} [C]               transformer.h.i.ln_2.{weight,bias}
//   h.i/mlp/up/{w,b} [4C,C]          transformer.h.i.mlp.c_fc.{weight T,bias}
//   h.i/mlp/down/{w,b} [C,4C]        transformer.h.i.mlp.c_proj.{weight T,bias}
//   ln_f/{w,b} [C]                   transformer.ln_f.{weight,bias}
//   lm_head/w [V,C]                  lm_head.weight, where the head is not tied
#pragma once

#include "frontend/dsl/loss.h"
#include "frontend/dsl/models/weight_names.h"

#include <string_view>
#include <vector>

namespace stator::dsl {

struct GptConfig {
  int64_t n_layer = 12;
  int64_t n_head = 12;
  int64_t n_embd = 768;
  int64_t block_size = 1024;  // the longest sequence: rows of the position table
  int64_t vocab_size = 50257;
  double dropout = 0;
  bool bias = true;  // in linear layers and layer norms
  bool tied_head = true;
  bool exact_gelu = false;  // by erf; GPT-2 itself has the tanh approximation
  double norm_eps = 1e-5;
};

// "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"; throws `Error` for another name.
GptConfig GptConfigNamed(std::string_view name);

// tokens i32 [B,T], T <= block_size -> logits [B,T,V].
Tensor GptLogits(const Scope& s, const Tensor& tokens, const GptConfig& config);
// Mean cross-entropy of the next token; targets i32 [B,T].
Loss GptLoss(const Scope& s, const Tensor& tokens, const Tensor& targets, const GptConfig& config,
             const CrossEntropyOptions& options = {});

std::vector<WeightSource> GptWeightSources(const GptConfig& config);

}  // namespace stator::dsl
