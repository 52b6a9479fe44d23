#include "frontend/driver/start.h"

#include "frontend/driver/checkpoint.h"
#include "frontend/driver/models.h"
#include "frontend/driver/pretrained.h"
#include "frontend/driver/resolve.h"

namespace stator {

int64_t StartStates(Executor& executor, const TrainConfig& config, bool bytes) {
  if (config.resume) {
    int64_t iteration = 0;
    WithCheckpoint(config.out_dir, [&](const std::string& checkpoint) {
      iteration = ReadCheckpointInfo(checkpoint).iteration;
      RestoreCheckpoint(executor, checkpoint, Restore::kEverything);
    });
    return iteration;
  }
  InitializeStates(executor, static_cast<uint64_t>(config.seed));
  if (!config.init_from.empty()) {
    LoadPretrained(executor, config.init_from,
                   WeightSources(config, VocabularySize(config, bytes)));
  }
  return 0;
}

std::vector<Batch> BatchesOf(const BatchSource& source, const TrainConfig& config, int64_t update) {
  std::vector<Batch> batches;
  for (int64_t i = 0; i < config.gradient_accumulation_steps; ++i) {
    batches.push_back(source.Random(static_cast<uint64_t>(config.seed), update, i));
  }
  return batches;
}

Feed FeedOf(const Batch& batch) {
  return {{"tokens", AsBytes(batch.tokens)}, {"targets", AsBytes(batch.targets)}};
}

std::vector<Feed> FeedsOf(const std::vector<Batch>& batches) {
  std::vector<Feed> feeds;
  for (const Batch& b : batches) feeds.push_back(FeedOf(b));
  return feeds;
}

}  // namespace stator
