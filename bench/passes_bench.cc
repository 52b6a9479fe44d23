// The compiler's time: from a declared GPT-2 to its plan, by layers, for an H200 that need not be
// there.
#include "frontend/driver/train.h"
#include "runtime/executor.h"

#include <benchmark/benchmark.h>

namespace stator {
namespace {

TrainConfig Gpt2(int64_t layers) {
  TrainConfig config;
  config.n_layer = layers, config.n_head = 12, config.n_embd = 768;
  config.block_size = 1024, config.batch_size = 16, config.vocab_size = 50304;
  config.dtype = "bf16";
  return config;
}

// Passes and text of all programs; no compiler or device is called.
void Compile(benchmark::State& state) {
  const auto target = MakeRecordedTarget("h200");
  size_t steps = 0;
  for (auto _ : state) {
    const PlannedModel planned = CompileTraining(Gpt2(state.range(0)), *target, /*bytes=*/false);
    steps = planned.compiled.plan.programs[0].steps.size();
  }
  state.counters["steps"] = static_cast<double>(steps);
}
BENCHMARK(Compile)->Arg(12)->Arg(24)->Arg(48)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stator
