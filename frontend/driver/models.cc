#include "frontend/driver/models.h"

#include "frontend/dsl/models/gpt2.h"
#include "frontend/dsl/models/llama.h"
#include "frontend/dsl/ops.h"
#include "ir/base/error.h"

#include <algorithm>

namespace stator {
namespace {

dsl::GptConfig Gpt(const TrainConfig& c, int64_t vocab_size) {
  return {.n_layer = c.n_layer,
          .n_head = c.n_head,
          .n_embd = c.n_embd,
          .block_size = c.block_size,
          .vocab_size = vocab_size,
          .dropout = c.dropout,
          .bias = c.bias,
          .tied_head = c.tie_weights,
          .norm_eps = c.norm_eps};
}

dsl::LlamaConfig Llama(const TrainConfig& c, int64_t vocab_size) {
  return {.n_layer = c.n_layer,
          .n_head = c.n_head,
          .n_kv_head = KeyValueHeads(c),
          .n_embd = c.n_embd,
          .ffn_dim = FfnDim(c),
          .vocab_size = vocab_size,
          .rope_theta = c.rope_theta,
          .norm_eps = c.norm_eps,
          .tied_head = c.tie_weights,
          .qkv_bias = c.qkv_bias,
          .qk_norm = c.qk_norm};
}

}  // namespace

int64_t KeyValueHeads(const TrainConfig& config) {
  return config.n_kv_head ? config.n_kv_head : config.n_head;
}

int64_t FfnDim(const TrainConfig& config) {
  // SwiGLU has three matrices where GPT-2's MLP has two: 8/3 C keeps the count, rounded up to 32.
  return config.ffn_dim ? config.ffn_dim : (8 * config.n_embd / 3 + 31) / 32 * 32;
}

int64_t VocabularySize(const TrainConfig& config, bool bytes) {
  if (config.vocab_size == 0) {
    if (bytes) return 256;
    Fail(ErrorCode::kInvalidArgument,
         "vocab_size: token files need one (50257 for GPT-2's tokens)");
  }
  if (bytes && config.vocab_size < 256) {
    Fail(ErrorCode::kInvalidArgument, "vocab_size: ", config.vocab_size,
         " is less than the 256 bytes");
  }
  return config.vocab_size;
}

std::unique_ptr<dsl::Model> LossModel(const TrainConfig& config, int64_t vocab_size,
                                      dsl::Mode mode) {
  auto model = std::make_unique<dsl::Model>(config.model, mode);
  const Dims shape = {config.batch_size, config.block_size};
  const dsl::Tensor tokens = model->Input("tokens", shape, DType::kI32);
  const dsl::Tensor targets = model->Input("targets", shape, DType::kI32);
  model->SetLoss(config.model == "gpt2"
                     ? GptLoss(model->scope(), tokens, targets, Gpt(config, vocab_size))
                     : LlamaLoss(model->scope(), tokens, targets, Llama(config, vocab_size)));
  return model;
}

std::unique_ptr<dsl::Model> ForwardModel(const TrainConfig& config, int64_t vocab_size) {
  auto model = std::make_unique<dsl::Model>(config.model, dsl::Mode::kEvaluate);
  const dsl::Tensor tokens = model->Input("tokens", {1, config.block_size}, DType::kI32);
  const dsl::Tensor logits = config.model == "gpt2"
                                 ? GptLogits(model->scope(), tokens, Gpt(config, vocab_size))
                                 : LlamaLogits(model->scope(), tokens, Llama(config, vocab_size));
  const dsl::Tensor at = model->Input("at", {1}, DType::kI32);
  const dsl::Tensor rows = logits.Reshape({config.block_size, vocab_size});
  model->Output("logits", Gather(rows, at).Cast(DType::kF32));
  return model;
}

std::vector<dsl::WeightSource> WeightSources(const TrainConfig& config, int64_t vocab_size) {
  return config.model == "gpt2" ? GptWeightSources(Gpt(config, vocab_size))
                                : LlamaWeightSources(Llama(config, vocab_size));
}

dsl::Optimizer MakeOptimizer(const TrainConfig& c) {
  // A run without updates has a schedule too, which nothing reads.
  const int64_t end = std::max<int64_t>(c.lr_decay_iters ? c.lr_decay_iters : c.max_iters, 1);
  const int64_t decay = std::max<int64_t>(end / 5, 1);  // updates, of "wsd"
  const int64_t warmup = c.warmup_iters;
  const dsl::Schedule rate =
      c.schedule == "cosine" ? dsl::Schedule(dsl::Cosine{c.learning_rate, warmup, end, c.min_lr})
      : c.schedule == "linear"
          ? dsl::Schedule(dsl::LinearDecay{c.learning_rate, warmup, end, c.min_lr})
      : c.schedule == "wsd"
          ? dsl::Schedule(dsl::WarmupStableDecay{c.learning_rate, warmup, end, decay, c.min_lr})
          : dsl::Schedule(dsl::ConstantRate{c.learning_rate, warmup});
  if (c.optimizer == "sgd") {
    return dsl::Sgd{.learning_rate = rate,
                    .momentum = c.momentum,
                    .weight_decay = c.weight_decay,
                    .clip_norm = c.grad_clip};
  }
  if (c.optimizer == "lion") {
    return dsl::Lion{.learning_rate = rate,
                     .beta1 = c.beta1,
                     .beta2 = c.beta2,
                     .weight_decay = c.weight_decay,
                     .clip_norm = c.grad_clip};
  }
  return dsl::AdamW{.learning_rate = rate,
                    .beta1 = c.beta1,
                    .beta2 = c.beta2,
                    .weight_decay = c.weight_decay,
                    .clip_norm = c.grad_clip};
}

double FlopsPerToken(const TrainConfig& c, int64_t parameters) {
  const int64_t positions = c.model == "gpt2" ? c.block_size * c.n_embd : 0;
  return 6.0 * static_cast<double>(parameters - positions) +
         12.0 * static_cast<double>(c.n_layer * c.n_embd) * static_cast<double>(c.block_size);
}

}  // namespace stator
