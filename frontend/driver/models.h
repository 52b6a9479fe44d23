// From a configuration to the declared model: the graphs that training, evaluation and sampling
// need.
#pragma once

#include "frontend/driver/config.h"
#include "frontend/dsl/model.h"
#include "frontend/dsl/models/weight_names.h"
#include "frontend/dsl/optimizer.h"

#include <memory>
#include <vector>

namespace stator {

// Token ids of the model: vocab_size, or 256 for text. Throws `Error` (kInvalidArgument) when token
// files leave it open.
int64_t VocabularySize(const TrainConfig& config, bool bytes);

// What 0 of n_kv_head and of ffn_dim stands for, else the key.
int64_t KeyValueHeads(const TrainConfig& config);
int64_t FfnDim(const TrainConfig& config);

// Inputs tokens and targets, i32 [batch_size, block_size]; outputs loss and weight.
std::unique_ptr<dsl::Model> LossModel(const TrainConfig& config, int64_t vocab_size,
                                      dsl::Mode mode);
// Inputs tokens i32 [1, block_size] and at i32 [1]; output logits f32 [1, vocab_size] of what
// follows position `at`.
std::unique_ptr<dsl::Model> ForwardModel(const TrainConfig& config, int64_t vocab_size);

// Where the model's parameters are in a Hugging Face checkpoint.
std::vector<dsl::WeightSource> WeightSources(const TrainConfig& config, int64_t vocab_size);

dsl::Optimizer MakeOptimizer(const TrainConfig& config);

// Training flops of one token by PaLM's formula (Chowdhery et al. 2022, appendix B):
// 6N + 12 L H Q T, with N parameters less the position table, L layers, H heads of size Q, T tokens
// of context.
double FlopsPerToken(const TrainConfig& config, int64_t parameters);

}  // namespace stator
