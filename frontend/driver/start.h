// What a run over a loaded plan begins with: the states that its configuration names, and the
// batches of each update. Training, checking, profiling and probing begin alike.
#pragma once

#include "frontend/driver/config.h"
#include "frontend/driver/data.h"
#include "frontend/driver/trainer.h"

#include <cstdint>
#include <vector>

namespace stator {

// Fills every state: with `resume` from the checkpoint in out_dir, else by the initializers and,
// where init_from names a file, with its weights. `bytes`: the data is text, which settles the
// vocabulary (VocabularySize). Returns how many updates the states have seen. Throws `Error`.
int64_t StartStates(Executor& executor, const TrainConfig& config, bool bytes);

// The micro-batches of update `update`, a function of the seed.
std::vector<Batch> BatchesOf(const BatchSource& source, const TrainConfig& config, int64_t update);

// A batch as a program takes it. The feed points into the batch.
Feed FeedOf(const Batch& batch);
std::vector<Feed> FeedsOf(const std::vector<Batch>& batches);

}  // namespace stator
