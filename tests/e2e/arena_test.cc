// The planned memory of a real training step: little is lost to fragmentation, every state is
// updated in place, and what is alive at the peak can be told.
#include "frontend/dsl/dsl.h"
#include "ir/storage.h"
#include "ir/views.h"
#include "passes/analysis/liveness.h"
#include "passes/pipeline.h"
#include "passes/training_programs.h"

#include <gtest/gtest.h>

namespace stator {
namespace {

TrainingGraphs PlannedGpt(DType compute_dtype, int micro_batches) {
  dsl::Model model("gpt");
  const dsl::GptConfig config = {
      .n_layer = 6, .n_head = 4, .n_embd = 128, .block_size = 128, .vocab_size = 500};
  const dsl::Tensor tokens = model.Input("tokens", {4, 128}, DType::kI32);
  const dsl::Tensor targets = model.Input("targets", {4, 128}, DType::kI32);
  model.SetLoss(dsl::GptLoss(model.scope(), tokens, targets, config));
  const OptimizerSpec optimizer = dsl::AdamW{.clip_norm = 1.0}(model.graph());
  PassOptions options;
  options.optimizer = &optimizer;
  options.compute_dtype = compute_dtype;
  options.micro_batches = micro_batches;
  TrainingGraphs graphs = BuildTrainingGraphs(model.graph(), options);
  for (Graph* graph : graphs.all()) PassManager(LowerPasses()).Run(*graph, options);
  return graphs;
}

TEST(Arena, gpt_loses_at_most_two_percent) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int micro_batches : {1, 4}) {
      const TrainingGraphs graphs = PlannedGpt(dtype, micro_batches);
      for (const Graph* graph : graphs.all()) {
        const ArenaUse use = MeasureArena(*graph);
        EXPECT_LE(use.arena_bytes, use.max_live_bytes * 102 / 100) << graph->name();
        EXPECT_EQ(use.arena_bytes, ArenaBytes(*graph));
      }
    }
  }
}

TEST(Arena, gpt_updates_every_state_in_place) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const TrainingGraphs graphs = PlannedGpt(dtype, 1);
    for (const NextState& next : graphs.train->next_states()) {
      const Storage storage = StorageOf(ResolveView(next.value).base);
      EXPECT_EQ(storage.space, Space::kState) << graphs.train->ParamName(next.state);
      if (storage.space != Space::kState) continue;
      EXPECT_EQ(graphs.train->states()[static_cast<size_t>(storage.offset)].node, next.state);
    }
  }
}

TEST(Arena, the_peak_is_told_by_op_and_scope) {
  const TrainingGraphs graphs = PlannedGpt(DType::kF32, 1);
  const std::vector<PeakValue> peak = AliveAtPeak(*graphs.train);
  ASSERT_FALSE(peak.empty());
  EXPECT_GE(peak.front().bytes, peak.back().bytes);
  EXPECT_FALSE(peak.front().name.empty());
  bool block = false;
  for (const PeakValue& v : peak) block = block || v.scope.rfind("h.", 0) == 0;
  EXPECT_TRUE(block);
}

}  // namespace
}  // namespace stator
