// Calls of one kernel on unrelated buffers become one call of a merged kernel, with the same bits.
#include "codegen/build_plan.h"
#include "codegen/emit_region.h"
#include "codegen/merge_calls.h"
#include "frontend/driver/trainer.h"
#include "ir/base/str.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "runtime/executor.h"
#if STATOR_WITH_NVRTC
#include "runtime/cuda/nvrtc.h"
#endif

#include <gtest/gtest.h>

namespace stator {
namespace {

// Three maps of one size, large enough for threads, and one that waits for the first; two folds of
// a row, small enough for none.
constexpr const char* kText = R"(
graph @f(%x: f32[50000], %y: f32[50000], %z: f32[50000], %s: f32[8]) -> (f32[50000], f32[50000], f32[50000], f32[1], f32[1]) {
  %0 = exp(%x) : f32[50000]
  %1 = exp(%y) : f32[50000]
  %2 = exp(%z) : f32[50000]
  %3 = exp(%0) : f32[50000]
  %6 = tanh(%s) : f32[8]
  %7 = mul(%6, %6) : f32[8]
  %8 = sum(%7) {axes=[0]} : f32[1]
  %9 = exp(%s) : f32[8]
  %10 = mul(%9, %9) : f32[8]
  %11 = sum(%10) {axes=[0]} : f32[1]
  return %1, %2, %3, %8, %11
}
)";

Plan PlanOf(const std::string& text, bool merge, const std::string& gpu = "") {
  const std::unique_ptr<Graph> graph = ParseGraph(text);
  const std::unique_ptr<Target> target = gpu.empty() ? MakeCpuTarget() : MakeRecordedTarget(gpu);
  PassOptions options;
  options.target = target.get();
  options.fuse = false;
  PassManager(LowerPasses()).Run(*graph, options);
  return BuildPlan({{"f", graph.get()}}, *target, {.plan_name = "merged", .merge = merge});
}

std::vector<std::string> StepNames(const Plan& plan) {
  std::vector<std::string> names;
  for (const PlanStep& step : plan.programs[0].steps) names.push_back(step.name);
  return names;
}

OutputMap RunPlan(Plan plan) {
  const auto executor = MakeCpuExecutor(std::move(plan), {});
  std::map<std::string, std::vector<float>> values;
  std::map<std::string, Bytes> feeds;
  for (const PlanInput& input : executor->plan().programs[0].inputs) {
    std::vector<float>& v = values[input.name];
    for (int64_t i = 0; i < input.type.NumElements(); ++i) {
      v.push_back(static_cast<float>((i * 37 + input.name[0] * 11) % 101) / 50.0f - 1.0f);
    }
    feeds[input.name] = AsBytes(v);
  }
  return executor->Wait(executor->Enqueue("f", feeds));
}

TEST(MergedCalls, keep_their_bits) {
  const Plan merged = PlanOf(kText, true);
  VerifyPlan(merged);
  int joined = 0;
  for (const std::string& name : StepNames(merged)) joined += name == "exp x3" || name == "fold x2";
  EXPECT_GE(joined, 1) << DescribePlan(merged, true);
  EXPECT_LT(merged.programs[0].steps.size(), PlanOf(kText, false).programs[0].steps.size());
  EXPECT_EQ(RunPlan(merged), RunPlan(PlanOf(kText, false)));
}

// Equal grids and different ones.
TEST(MergedCalls, compile_for_a_gpu) {
  const Plan plan = PlanOf(kText, true, "h200");
  bool table = false;
  for (const PlanStep& step : plan.programs[0].steps) {
    if (const auto* call = std::get_if<KernelCall>(&step.work)) table = table || call->table;
  }
  EXPECT_TRUE(table) << DescribePlan(plan, true);
  KernelCall small{0, {{Space::kState, 0}, {Space::kArena, 0}}},
      large{0, {{Space::kState, 0}, {Space::kArena, 4096}}};
  small.block = large.block = 64;
  large.grid[0] = 3;
  const std::vector<KernelCall> calls = {small, large, small};
  const std::vector<SameCalls> groups = {
      {StrCat("extern \"C\" __global__ void ", kKernelName, "(const float* a0, float* a1) {\n",
              "  a1[blockIdx.x] = a0[blockIdx.x];\n}\n"),
       calls}};
  const MergedCall merged = MergeCalls(Language::kCuda, groups);
  EXPECT_EQ(merged.call.grid[0], 5);
  EXPECT_EQ(merged.call.args.size(), 4u);  // what is read is shared
#if STATOR_WITH_NVRTC
  std::string source = merged.body;
  for (size_t at; (at = source.find(kKernelName)) != std::string::npos;) {
    source.replace(at, kKernelName.size(), "k_copy");
  }
  EXPECT_FALSE(CompileCuda(source, 90, "merged by hand").empty());
  for (const KernelModule& m : plan.modules)
    EXPECT_FALSE(CompileCuda(m.source, 90, "merged").empty());
#endif
}

// One writes what the next one reads.
TEST(MergedCalls, leave_chains_alone) {
  const Plan plan = PlanOf(R"(
graph @f(%x: f32[64]) -> f32[64] {
  %0 = exp(%x) : f32[64]
  %1 = exp(%0) : f32[64]
  %2 = exp(%1) : f32[64]
  return %2
}
)",
                           true);
  for (const std::string& name : StepNames(plan))
    EXPECT_EQ(name.find(" x"), std::string::npos) << name;
}

}  // namespace
}  // namespace stator
