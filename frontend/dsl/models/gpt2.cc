#include "frontend/dsl/models/gpt2.h"

#include "frontend/dsl/attention.h"
#include "frontend/dsl/emit.h"
#include "ir/base/error.h"

#include <cmath>

namespace stator::dsl {
namespace {

constexpr char kInit[] = "normal(0.02)";

// Each block adds two projections to the residual stream: they start smaller, so that the stream's
// variance does not grow with depth.
std::string ResidualInit(const GptConfig& c) {
  return StrCat("normal(", 0.02 / std::sqrt(2.0 * static_cast<double>(c.n_layer)), ')');
}

// `x` is the residual stream, [B,T,C]. What is added to it is added in a scope of its own, so that
// keep_f32 can name the stream alone.
Tensor Block(const Scope& s, Tensor x, const GptConfig& c) {
  const NormOptions norm{.eps = c.norm_eps, .bias = c.bias};
  const AttentionConfig attention{.heads = c.n_head,
                                  .qkv_bias = c.bias,
                                  .proj_bias = c.bias,
                                  .init = kInit,
                                  .init_proj = ResidualInit(c),
                                  .bias_init = "zeros",
                                  .dropout = c.dropout,
                                  .proj_dropout = c.dropout};
  MlpOptions mlp{.bias = c.bias,
                 .init = kInit,
                 .init_down = ResidualInit(c),
                 .bias_init = "zeros",
                 .dropout = c.dropout};
  if (c.exact_gelu) mlp.activation = [](const Tensor& h) { return Gelu(h); };

  const Scope residual = s / "residual";
  x = x + Attention(s / "attn", LayerNorm(s / "ln_1", x, norm), attention).In(residual);
  x = x + Mlp(s / "mlp", LayerNorm(s / "ln_2", x, norm), 4 * c.n_embd, mlp).In(residual);
  return x.In(s.parent());
}

// What the head computes logits of, both in its scope.
struct Head {
  Tensor x;       // [B,T,C]
  Tensor weight;  // [V,C]
};

Head Trunk(const Scope& s, const Tensor& tokens, const GptConfig& c) {
  if (tokens.rank() != 2) {
    FailAt("gpt", s, Location(), StrCat("tokens must be [B,T], got ", tokens.shape()));
  }
  const int64_t length = tokens.dim(1);
  if (length > c.block_size) {
    FailAt("gpt", s, Location(),
           StrCat("sequence of ", length, " is longer than block_size ", c.block_size));
  }
  const Tensor wte = EmbeddingTable(s / "wte", c.vocab_size, c.n_embd, kInit);
  const Tensor wpe = EmbeddingTable(s / "wpe", c.block_size, c.n_embd, kInit);
  const Tensor embedded = Embedding(wte, tokens);          // [B,T,C]
  const Tensor positions = wpe.Slice(0, 0, length).In(s);  // [T,C]
  Tensor x = embedded + positions.In(s / "residual");
  x = Dropout(s / "drop", x, c.dropout);
  for (int64_t i = 0; i < c.n_layer; ++i) x = Block(s / StrCat("h.", i), x, c);
  x = LayerNorm(s / "ln_f", x, {.eps = c.norm_eps, .bias = c.bias});
  const Scope head = s / "lm_head";
  const Tensor weight = c.tied_head ? wte : head.Parameter("w", {c.vocab_size, c.n_embd}, kInit);
  return {x.In(head), weight.In(head)};
}

}  // namespace

GptConfig GptConfigNamed(std::string_view name) {
  if (name == "gpt2") return {};
  if (name == "gpt2-medium") return {.n_layer = 24, .n_head = 16, .n_embd = 1024};
  if (name == "gpt2-large") return {.n_layer = 36, .n_head = 20, .n_embd = 1280};
  if (name == "gpt2-xl") return {.n_layer = 48, .n_head = 25, .n_embd = 1600};
  Fail(ErrorCode::kInvalidArgument, "no GPT-2 is named ", name,
       "; there are gpt2, gpt2-medium, gpt2-large, gpt2-xl");
}

Tensor GptLogits(const Scope& s, const Tensor& tokens, const GptConfig& c) {
  const Head head = Trunk(s, tokens, c);
  return LinearWith(head.weight, head.x).In(s);
}

Loss GptLoss(const Scope& s, const Tensor& tokens, const Tensor& targets, const GptConfig& config,
             const CrossEntropyOptions& options) {
  const Head head = Trunk(s, tokens, config);
  return LinearCrossEntropy(head.x, head.weight, targets.In(s / "loss"), options);
}

std::vector<WeightSource> GptWeightSources(const GptConfig& c) {
  std::vector<WeightSource> list;
  const auto add = [&](const std::string& ours, const std::string& theirs, bool has_bias,
                       bool transpose) {
    list.push_back({ours + "/w", {theirs + ".weight"}, transpose});
    if (has_bias) list.push_back({ours + "/b", {theirs + ".bias"}});
  };
  add("wte", "transformer.wte", false, false);
  add("wpe", "transformer.wpe", false, false);
  for (int64_t i = 0; i < c.n_layer; ++i) {
    const std::string ours = StrCat("h.", i, '/'), theirs = StrCat("transformer.h.", i, '.');
    add(ours + "ln_1", theirs + "ln_1", c.bias, false);
    add(ours + "attn/qkv", theirs + "attn.c_attn", c.bias, true);
    add(ours + "attn/proj", theirs + "attn.c_proj", c.bias, true);
    add(ours + "ln_2", theirs + "ln_2", c.bias, false);
    add(ours + "mlp/up", theirs + "mlp.c_fc", c.bias, true);
    add(ours + "mlp/down", theirs + "mlp.c_proj", c.bias, true);
  }
  add("ln_f", "transformer.ln_f", c.bias, false);
  if (!c.tied_head) add("lm_head", "lm_head", false, false);
  return list;
}

}  // namespace stator::dsl
