// What emitted CUDA must and must not say.
#include "codegen/build_plan.h"
#include "ir/base/str.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "runtime/executor.h"
#include "tests/codegen/cuda_models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <regex>
#include <set>

namespace stator {
namespace {

std::string EmitCuda(const std::string& text) {
  const std::unique_ptr<Graph> graph = ParseGraph(text);
  const auto target = MakeRecordedTarget("h200");
  PassOptions options;
  options.target = target.get();
  PassManager(LowerPasses()).Run(*graph, options);
  return KernelText(BuildPlan({{"f", graph.get()}}, *target, {.plan_name = "f"}));
}

// "f32[4096,768]" pointwise.
std::string Pointwise(const std::string& type) {
  return EmitCuda(StrCat("graph @f(%x: ", type, ", %y: ", type, ") -> ", type,
                         " {\n  %0 = mul(%x, %y) : ", type, "\n  %1 = add(%0, %x) : ", type,
                         "\n  return %1\n}\n"));
}

std::string Row(const std::string& dtype, int64_t width) {
  const std::string type = StrCat(dtype, "[512,", width, "]"),
                    weight = StrCat(dtype, "[", width, "]");
  return EmitCuda(StrCat("graph @f(%x: ", type, ", %w: ", weight, ") -> ", type,
                         " {\n  %0, %1 = rms_norm(%x, %w) : ", type,
                         ", f32[512,1]\n  return %0\n}\n"));
}

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

TEST(EmittedText, moves_sixteen_bytes_at_a_time) {
  EXPECT_EQ(Count(Pointwise("bf16[4096,768]"), "st_load<8>("), 2);
  EXPECT_EQ(Count(Pointwise("bf16[4096,768]"), "st_store<8>("), 1);
  EXPECT_EQ(Count(Pointwise("f32[4096,768]"), "st_load<4>("), 2);
  EXPECT_EQ(Count(Pointwise("f32[4096,768]"), "st_store<4>("), 1);
  // x once, kept between the sweeps, and w.
  EXPECT_EQ(Count(Row("bf16", 1536), "st_load<8>("), 2);
  EXPECT_EQ(Count(Row("bf16", 1536), "st_store_rounded<8>("), 1);
  EXPECT_EQ(Count(Row("f32", 1536), "st_load<4>("), 2);
  EXPECT_EQ(Count(Row("f32", 1536), "st_store<4>("), 1);
}

TEST(EmittedText, narrows_vectors_to_what_the_width_divides) {
  EXPECT_EQ(Count(Row("bf16", 1540), "st_load<4>("), 2);
  EXPECT_EQ(Count(Row("bf16", 1538), "st_load<2>("), 2);
  EXPECT_EQ(Count(Row("bf16", 1537), "st_load<"), 0);
  EXPECT_EQ(Count(Pointwise("f32[33,77]"), "st_load<"), 0);
}

// The runtime launches kernels early if all of a module wait (runtime/cuda/library.h).
TEST(EmittedText, begins_every_kernel_with_the_wait) {
  for (const Plan& plan : {GptPlanForGpu(DType::kBF16, 1), LlamaPlanForGpu(DType::kF32, 1)}) {
    for (const KernelModule& m : plan.modules) {
      EXPECT_EQ(Count(m.source, "__global__"),
                Count(m.source, "st_begin();") + Count(m.source, "st_await();"));
      EXPECT_GT(Count(m.source, "__global__"), 0);
    }
  }
}

// What a bias makes of x is rounded once and kept, packed, for the later sweeps and the store.
TEST(EmittedText, computes_rounded_results_once) {
  const std::string text =
      EmitCuda(R"(graph @f(%x: bf16[512,1536], %b: bf16[1536]) -> (bf16[512,1536], bf16[512,1536]) {
  %0 = broadcast(%b) {shape=[512,1536]} : bf16[512,1536]
  %1 = add(%x, %0) : bf16[512,1536]
  %2, %3, %4 = layer_norm(%1) : bf16[512,1536], f32[512,1], f32[512,1]
  return %1, %2
})");
  EXPECT_EQ(Count(text, "st_load<8>("), 2);
  EXPECT_EQ(Count(text, "st_put_lanes("), 1);
}

// Rows that are folded along columns too: copied ahead to shared memory where there are rows for
// all multiprocessors and it is large enough.
TEST(EmittedText, folds_rows_and_columns_of_many_rows_in_a_ring) {
  const auto emit = [](int rows, int width) {
    const std::string x = StrCat("bf16[", rows, ",", width, "]"),
                      f = StrCat("f32[", rows, ",", width, "]");
    return EmitCuda(
        StrCat("graph @f(%x: ", x, ", %y: ", x, ") -> (", x, ", f32[1,", width,
               "]) {\n  %0 = cast(%x) {to=f32} : ", f, "\n  %1 = cast(%y) {to=f32} : ", f,
               "\n  %2 = mul(%0, %1) : ", f, "\n  %3 = sum(%2) {axes=[1]} : f32[", rows,
               ",1]\n  %4 = broadcast(%3) {shape=[", rows, ",", width, "]} : ", f,
               "\n  %5 = sub(%1, %4) : ", f, "\n  %6 = cast(%5) {to=bf16} : ", x,
               "\n  %7 = sum(%5) {axes=[0]} : f32[1,", width, "]\n  return %6, %7\n}\n"));
  };
  EXPECT_NE(emit(8192, 768).find("st_place<st_bf16, 8, 96>(ring"), std::string::npos);
  EXPECT_NE(emit(8192, 1600).find("st_place<st_bf16, 8, 200>(ring"), std::string::npos);
  EXPECT_EQ(emit(1024, 768).find("(ring"), std::string::npos);   // few blocks
  EXPECT_EQ(emit(8192, 9000).find("(ring"), std::string::npos);  // a row that registers do not hold
}

// A literal without a suffix is a double, and arithmetic with it runs at a fraction of the speed.
TEST(EmittedText, has_no_doubles_in_f32_and_bf16_models) {
  const std::regex literal(
      R"((^|[^\w.])(\d+\.\d*|\.\d+|\d+\.?\d*[eE][+-]?\d+)([eE][+-]?\d+)?(?![\w.]))");
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Plan& plan : {GptPlanForGpu(dtype, 1), LlamaPlanForGpu(dtype, 1)}) {
      const std::string text = KernelText(plan);
      EXPECT_EQ(text.find("double"), std::string::npos)
          << text.substr(text.find("double") - 200, 400);
      std::smatch match;
      EXPECT_FALSE(std::regex_search(text, match, literal)) << match.str();
    }
  }
}

// Of the layers' forward and backward passes; updates of parameters and moments have their scopes.
std::set<std::string> KernelsOfLayers(const Plan& plan) {
  std::set<std::string> names;
  for (const Program& program : plan.programs) {
    for (const PlanStep& step : program.steps) {
      const bool of_layer = step.scope.starts_with("h.") && plan.FindState(step.scope) == nullptr;
      if (const auto* call = std::get_if<KernelCall>(&step.work); call != nullptr && of_layer) {
        names.insert(plan.kernels[call->kernel].name);
      }
    }
  }
  return names;
}

void ExpectSameKernels(const Plan& shallow, const Plan& deep) {
  const std::set<std::string> a = KernelsOfLayers(shallow), b = KernelsOfLayers(deep);
  std::vector<std::string> only;
  std::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(only));
  EXPECT_TRUE(only.empty()) << Join(only, "\n");
}

// Without dropout, whose stream ids are literals.
TEST(EmittedText, shares_the_kernels_of_equal_layers) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    ExpectSameKernels(GptPlanForGpu(dtype, 3, 0), GptPlanForGpu(dtype, 9, 0));
    ExpectSameKernels(LlamaPlanForGpu(dtype, 3), LlamaPlanForGpu(dtype, 9));
  }
}

TEST(EmittedText, is_the_same_bytes_every_time) {
  const Plan a = GptPlanForGpu(DType::kBF16, 2), b = GptPlanForGpu(DType::kBF16, 2);
  ASSERT_EQ(a.modules.size(), b.modules.size());
  for (size_t m = 0; m < a.modules.size(); ++m) {
    EXPECT_TRUE(a.modules[m].source == b.modules[m].source);
    EXPECT_EQ(a.modules[m].key, b.modules[m].key);
  }
  EXPECT_EQ(DescribePlan(a, true), DescribePlan(b, true));
}

// Kernel launches of a training step after its last library call: the weight update.
int UpdateLaunches(const Plan& plan) {
  int launches = 0;
  for (const PlanStep& step : plan.FindProgram("train")->steps) {
    if (std::holds_alternative<MatMulCall>(step.work)) launches = 0;
    launches += std::holds_alternative<KernelCall>(step.work);
  }
  return launches;
}

TEST(EmittedText, updates_of_all_layers_share_launches) {
  const int launches = UpdateLaunches(GptPlanForGpu(DType::kBF16, 2));
  EXPECT_GT(launches, 0);
  EXPECT_LT(launches, 40);
  EXPECT_EQ(launches, UpdateLaunches(GptPlanForGpu(DType::kBF16, 5)));
}

// A step with nothing to do is left out, but not what it waits for: a slice of no rows is the first
// to read the gradient that stream 1 computes.
TEST(EmittedText, waits_outlive_steps_that_are_left_out) {
  const std::unique_ptr<Graph> graph = ParseGraph(
      R"(graph @f(%x: f32[64,32], %g: f32[64,16], %k: f32[32,8], state %w: f32[16,32], state %e: f32[0,32]) -> f32[64,8] {
  %0 = matmul(%g, %x) {transpose_a=true} : f32[16,32] #{phase="backward"}
  %1 = matmul(%x, %k) : f32[64,8] #{phase="backward"}
  %2 = slice(%0) {limits=[0,32], starts=[0,0]} : f32[0,32] #{phase="update"}
  %3 = sub(%e, %2) : f32[0,32] #{phase="update"}
  %4 = sub(%w, %0) : f32[16,32] #{phase="update"}
  return %1
  next %e = %3
  next %w = %4
}
)");
  const auto target = MakeRecordedTarget("h200");
  PassOptions options;
  options.target = target.get();
  PassManager(LowerPasses()).Run(*graph, options);
  const Plan plan = BuildPlan({{"f", graph.get()}}, *target, {.plan_name = "f"});
  const std::vector<PlanStep>& steps = plan.programs[0].steps;
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].stream, 1);
  EXPECT_EQ(steps[2].stream, 0);
  EXPECT_EQ(steps[2].waits, std::vector<int>{0});
}

}  // namespace
}  // namespace stator
