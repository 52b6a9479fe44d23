// The programs of a training run, over one set of states, from one declared model.
#pragma once

#include "ir/graph.h"
#include "passes/pass.h"

#include <memory>
#include <string_view>
#include <vector>

namespace stator {

namespace training {
// States of a run with several micro-batches; all zero between updates.
inline constexpr std::string_view kLossSum = "sum/loss";      // f32[], sum of weight * loss
inline constexpr std::string_view kWeightSum = "sum/weight";  // f32[]
inline constexpr std::string_view kMicroBatch =
    "micro_batch";  // i64[], where random streams need it
}  // namespace training

// Null where the run has no such program. Dtypes are settled: what is left is LowerPasses.
struct TrainingGraphs {
  // One micro-batch a step. Outputs: the model's, grad_norm, lr, finite.
  std::unique_ptr<Graph> train;

  // Several: `accumulate` runs once a micro-batch, outputs the model's, and adds weight * gradient
  // to the states grad/<name>; `update` then divides them by the summed weight, updates, and sets
  // them to zero. Its outputs: loss, weight (mean and sum over the micro-batches), grad_norm, lr,
  // finite.
  std::unique_ptr<Graph> accumulate, update;

  // The model's outputs with dropout off; writes no state.
  std::unique_ptr<Graph> evaluate;

  std::vector<Graph*> all() const;  // those that are there
};

// `options` gives optimizer, micro_batches, compute_dtype and keep_f32. `evaluate_model` stands in
// for `model` in the evaluate program (null: `model` with the dropout rates of its ops set to 0).
// Throws `Error` for a model without a loss.
TrainingGraphs BuildTrainingGraphs(const Graph& model, const PassOptions& options,
                                   const Graph* evaluate_model = nullptr);

// A forward-only program of `model`: its outputs and the next states it declares, dropout off,
// dtypes settled. For programs beside training, such as logits for sampling. Once it is in a bundle
// with others, ShareShadows is to be called.
std::unique_ptr<Graph> BuildForwardGraph(const Graph& model, const std::string& name,
                                         const PassOptions& options);

// Gives every graph that has a parameter its shadow too, if any of the graphs has one, and makes it
// update both: the low-precision copy that a program of the bundle reads is kept by all of them.
void ShareShadows(const std::vector<Graph*>& graphs);

}  // namespace stator
