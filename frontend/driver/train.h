// `stator train` as a function: data, compilation, the loop, evaluation, checkpoints, a sample.
#pragma once

#include "frontend/driver/compile.h"
#include "frontend/driver/config.h"
#include "frontend/driver/data.h"
#include "frontend/driver/watch.h"
#include "runtime/executor.h"

namespace stator {

struct TrainResult {
  int64_t iteration = 0;  // updates attempted over all runs
  double val_loss = 0;    // of the last evaluation, nats a token
  double bigram = 0;      // ByteBigramEntropy(...).val; 0 when the data is not text
  int signal = 0;         // the signal that ended the run; 0: it ran to its end
};

// Prints to stdout and writes checkpoints and metrics under config.out_dir. What is watched goes to
// both. Throws `Error`.
TrainResult RunTraining(TrainConfig config, const WatchOptions& watch = {});

DataOptions MakeDataOptions(const TrainConfig& config);

// What RunTraining compiles for `config`, without its data: for `stator plan`. Token files need
// vocab_size, as there.
struct PlannedModel {
  CompiledModel compiled;
  int64_t parameters = 0;
};
using PlanDump = decltype(CompileOptions::on_dump);
PlannedModel CompileTraining(const TrainConfig& config, const Target& target, bool bytes,
                             const PlanDump& dump = {}, bool keep_graphs = false);
// Only "forward", for sampling.
PlannedModel CompileSampling(const TrainConfig& config, const Target& target, bool bytes);

ExecutorOptions MakeExecutorOptions(const TrainConfig& config, const Device& device);

}  // namespace stator
