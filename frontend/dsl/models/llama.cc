#include "frontend/dsl/models/llama.h"

#include "frontend/dsl/emit.h"
#include "ir/base/error.h"

namespace stator::dsl {
namespace {

std::string Init(const LlamaConfig& c) { return StrCat("normal(", c.init_std, ')'); }

int64_t HeadDim(const LlamaConfig& c) { return c.head_dim != 0 ? c.head_dim : c.n_embd / c.n_head; }

// `x` is the residual stream, [B,T,C]. What is added to it is added in a scope of its own, so that
// keep_f32 can name the stream alone.
Tensor Block(const Scope& s, Tensor x, const RotaryTables& rotary, const LlamaConfig& c) {
  const std::string init = Init(c);
  const AttentionConfig attention{.heads = c.n_head,
                                  .kv_heads = c.n_kv_head,
                                  .head_dim = c.head_dim,
                                  .qkv_bias = c.qkv_bias,
                                  .proj_bias = false,
                                  .qk_norm = c.qk_norm,
                                  .norm_eps = c.norm_eps,
                                  .rotary = rotary,
                                  .init = init,
                                  .init_proj = init,
                                  .bias_init = "zeros"};
  const SwiGluOptions mlp{.init = init, .init_down = init};
  const Scope residual = s / "residual";
  x = x + Attention(s / "attn", RmsNorm(s / "attn_norm", x, c.norm_eps), attention).In(residual);
  x = x + SwiGlu(s / "mlp", RmsNorm(s / "mlp_norm", x, c.norm_eps), c.ffn_dim, mlp).In(residual);
  return x.In(s.parent());
}

// What the head computes logits of, both in its scope.
struct Head {
  Tensor x;       // [B,T,C]
  Tensor weight;  // [V,C]
};

Head Trunk(const Scope& s, const Tensor& tokens, const LlamaConfig& c) {
  if (tokens.rank() != 2) {
    FailAt("llama", s, Location(), StrCat("tokens must be [B,T], got ", tokens.shape()));
  }
  const Tensor table = EmbeddingTable(s / "embed", c.vocab_size, c.n_embd, Init(c));
  Tensor x = Embedding(table, tokens);  // [B,T,C]
  const RotaryTables rotary =
      MakeRotary(s / "rotary", tokens.dim(1), HeadDim(c), c.rope_theta, c.rope_scaling);
  for (int64_t i = 0; i < c.n_layer; ++i) x = Block(s / StrCat("h.", i), x, rotary, c);
  x = RmsNorm(s / "norm", x, c.norm_eps);
  const Scope head = s / "lm_head";
  const Tensor weight =
      c.tied_head ? table : head.Parameter("w", {c.vocab_size, c.n_embd}, Init(c));
  return {x.In(head), weight.In(head)};
}

}  // namespace

LlamaConfig LlamaConfigNamed(std::string_view name) {
  const RopeScaling stretched{.factor = 32};
  if (name == "llama-3.2-1b") return {.rope_scaling = stretched};
  if (name == "llama-3.2-3b") {
    return {.n_layer = 28, .n_head = 24, .n_embd = 3072, .rope_scaling = stretched};
  }
  if (name == "llama-3.1-8b") {
    return {.n_layer = 32,
            .n_embd = 4096,
            .ffn_dim = 14336,
            .rope_scaling = RopeScaling{},
            .tied_head = false};
  }
  if (name == "qwen2.5-0.5b") {
    return {.n_layer = 24,
            .n_head = 14,
            .n_kv_head = 2,
            .n_embd = 896,
            .ffn_dim = 4864,
            .vocab_size = 151936,
            .rope_theta = 1e6,
            .norm_eps = 1e-6,
            .qkv_bias = true};
  }
  if (name == "qwen3-0.6b") {
    return {.n_layer = 28,
            .n_head = 16,
            .n_kv_head = 8,
            .n_embd = 1024,
            .head_dim = 128,
            .ffn_dim = 3072,
            .vocab_size = 151936,
            .rope_theta = 1e6,
            .norm_eps = 1e-6,
            .qk_norm = true};
  }
  Fail(ErrorCode::kInvalidArgument, "no Llama is named ", name, "; there are llama-3.2-1b, ",
       "llama-3.2-3b, llama-3.1-8b, qwen2.5-0.5b, qwen3-0.6b");
}

Tensor LlamaLogits(const Scope& s, const Tensor& tokens, const LlamaConfig& c) {
  const Head head = Trunk(s, tokens, c);
  return LinearWith(head.weight, head.x).In(s);
}

Loss LlamaLoss(const Scope& s, const Tensor& tokens, const Tensor& targets,
               const LlamaConfig& config, const CrossEntropyOptions& options) {
  const Head head = Trunk(s, tokens, config);
  return LinearCrossEntropy(head.x, head.weight, targets.In(s / "loss"), options);
}

std::vector<WeightSource> LlamaWeightSources(const LlamaConfig& c) {
  std::vector<WeightSource> list;
  const auto one = [&](const std::string& ours, const std::string& theirs) {
    list.push_back({ours, {theirs}});
  };
  const int64_t q = c.n_head * HeadDim(c);
  const int64_t kv = c.n_kv_head != 0 ? c.n_kv_head * HeadDim(c) : q;
  one("embed/w", "model.embed_tokens.weight");
  for (int64_t i = 0; i < c.n_layer; ++i) {
    const std::string ours = StrCat("h.", i, '/'), theirs = StrCat("model.layers.", i, '.');
    const std::string attn = theirs + "self_attn.";
    const auto qkv = [&](const std::string& part) {
      return std::vector<std::string>{attn + "q_proj." + part, attn + "k_proj." + part,
                                      attn + "v_proj." + part};
    };
    one(ours + "attn_norm/w", theirs + "input_layernorm.weight");
    list.push_back({ours + "attn/qkv/w", qkv("weight"), false, {q, kv, kv}});
    if (c.qkv_bias) list.push_back({ours + "attn/qkv/b", qkv("bias"), false, {q, kv, kv}});
    if (c.qk_norm) {
      one(ours + "attn/q_norm/w", attn + "q_norm.weight");
      one(ours + "attn/k_norm/w", attn + "k_norm.weight");
    }
    one(ours + "attn/proj/w", attn + "o_proj.weight");
    one(ours + "mlp_norm/w", theirs + "post_attention_layernorm.weight");
    list.push_back({ours + "mlp/gate_up/w",
                    {theirs + "mlp.gate_proj.weight", theirs + "mlp.up_proj.weight"},
                    false,
                    {c.ffn_dim, c.ffn_dim}});
    one(ours + "mlp/down/w", theirs + "mlp.down_proj.weight");
  }
  one("norm/w", "model.norm.weight");
  if (!c.tied_head) one("lm_head/w", "lm_head.weight");
  return list;
}

}  // namespace stator::dsl
