// Generated kernels on the device at hand (STATOR_BENCH_DEVICE: cpu, the default, or cuda), fused
// and unfused, with the copies of inputs and outputs: bytes a second by what the graph must read
// and write.
#include "codegen/build_plan.h"
#include "frontend/driver/device.h"
#include "ir/base/str.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "runtime/executor.h"

#include <benchmark/benchmark.h>

#include <cstdlib>

namespace stator {
namespace {

// Rows of width 768 and the row length of a vocabulary.
struct Case {
  const char* name;
  const char* text;
  double bytes;  // inputs and outputs
};

constexpr double kActivations = 4096.0 * 768 * 4;
const Case kCases[] = {
    {"gelu", R"(
graph @f(%x: f32[4096,768]) -> f32[4096,768] {
  %0 = gelu(%x) {approximate="tanh"} : f32[4096,768]
  return %0
})",
     2 * kActivations},
    {"layer_norm", R"(
graph @f(%x: f32[4096,768], %w: f32[768], %b: f32[768]) -> f32[4096,768] {
  %0, %1, %2 = layer_norm(%x, %w, %b) : f32[4096,768], f32[4096,1], f32[4096,1]
  return %0
})",
     2 * kActivations},
    {"column_sum", R"(
graph @f(%x: f32[4096,768]) -> f32[1,768] {
  %0 = sum(%x) {axes=[0]} : f32[1,768]
  return %0
})",
     kActivations},
    {"softmax", R"(
graph @f(%x: f32[256,50304]) -> f32[256,50304] {
  %0 = softmax(%x) : f32[256,50304]
  return %0
})",
     2 * 256.0 * 50304 * 4},
};

void Kernel(benchmark::State& state, const Case& c, bool fuse) {
  const char* name = std::getenv("STATOR_BENCH_DEVICE");
  const Device device = ChooseDevice(name ? name : "cpu");
  const std::unique_ptr<Graph> graph = ParseGraph(c.text);
  PassOptions options;
  options.target = device.target.get();
  options.fuse = fuse;
  PassManager(LowerPasses()).Run(*graph, options);
  ExecutorOptions run;
  run.device = device.ordinal;
  const auto executor =
      MakeExecutor(BuildPlan({{"f", graph.get()}}, *device.target, {.plan_name = "bench"}), run);
  std::map<std::string, std::vector<char>> data;
  std::map<std::string, Bytes> feeds;
  for (const PlanInput& input : executor->plan().programs[0].inputs) {
    feeds[input.name] = data[input.name] = std::vector<char>(input.type.Bytes());
  }
  for (auto _ : state) executor->Wait(executor->Enqueue("f", feeds));
  state.SetBytesProcessed(static_cast<int64_t>(static_cast<double>(state.iterations()) * c.bytes));
}

const int kRegistered = [] {
  for (const Case& c : kCases) {
    for (const bool fuse : {true, false}) {
      benchmark::RegisterBenchmark(StrCat(c.name, fuse ? "/fused" : "/unfused").c_str(),
                                   [&c, fuse](benchmark::State& state) { Kernel(state, c, fuse); })
          ->UseRealTime()
          ->Unit(benchmark::kMicrosecond);
    }
  }
  return 0;
}();

}  // namespace
}  // namespace stator
