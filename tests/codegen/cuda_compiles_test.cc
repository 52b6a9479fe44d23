// Every kernel that the emitter makes of an op's samples, of their gradients, of odd graphs and of
// small models is CUDA that NVRTC takes, for every architecture we name. No GPU is needed.
#include "ir/base/error.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <thread>
#if STATOR_WITH_NVRTC
#include "runtime/cuda/nvrtc.h"
#endif
#include "codegen/build_plan.h"
#include "passes/pipeline.h"
#include "runtime/executor.h"
#include "tests/codegen/cuda_models.h"
#include "tests/e2e/kernel_cases.h"
#include "tests/support/product_graphs.h"

#include <gtest/gtest.h>

namespace stator {
namespace {

constexpr std::array kArchitectures = {80, 86, 89, 90, 100};
constexpr int kThreads = 2;

#if STATOR_WITH_NVRTC
// Kernels with instructions of one architecture are in modules of their own, of plans for it alone.
bool IsFor(int sm, const std::string& source) {
  return sm == 90 || source.find("wgmma") == std::string::npos;
}

// "" or the first error, by architecture.
std::array<std::string, kArchitectures.size()> CompileForAll(const std::string& source,
                                                             const std::string& name) {
  std::array<std::string, kArchitectures.size()> errors;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t k = t; k < kArchitectures.size(); k += kThreads) {
        if (!IsFor(kArchitectures[k], source)) continue;
        try {
          const std::vector<char> binary = CompileCuda(source, kArchitectures[k], name);
          if (binary.empty()) errors[k] = "no machine code";
        } catch (const Error& e) {
          errors[k] = e.what();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

void ExpectCompiles(const Plan& plan, const std::string& name) {
  try {
    (void)NvrtcVersion();
  } catch (const Error& e) {
    GTEST_SKIP() << e.what();
  }
  ASSERT_FALSE(plan.kernels.empty());
  for (const KernelModule& module : plan.modules) {
    ASSERT_EQ(module.language, Language::kCuda);
    const auto errors = CompileForAll(module.source, name);
    for (size_t k = 0; k < errors.size(); ++k) {
      EXPECT_EQ(errors[k], "") << name << " for sm_" << kArchitectures[k];
    }
  }
}
#else
void ExpectCompiles(const Plan&, const std::string&) { GTEST_SKIP() << "built without libnvrtc"; }
#endif

// The assembler says so where it makes every wgmma wait for the one before it.
void ExpectProductsOverlap(const Plan& plan) {
#if STATOR_WITH_NVRTC
  for (const KernelModule& module : plan.modules) {
    if (module.source.find("wgmma") == std::string::npos) continue;
    std::string report;
    try {
      (void)CompileCuda(module.source, 90, "products", &report);
    } catch (const Error&) {
      return;  // ExpectCompiles tells
    }
    EXPECT_NE(report.find("Compiling entry function"), std::string::npos) << report;
    EXPECT_EQ(report.find("serialized"), std::string::npos) << report;
  }
#else
  (void)plan;
#endif
}

Plan PlanFor(const std::vector<KernelCase>& cases) {
  return PlanOfCases(cases, *MakeRecordedTarget("h200"), /*fuse=*/true);
}

TEST(CudaCompiles, products_with_epilogues) {
  const auto target = MakeRecordedTarget("h200");
  std::vector<std::unique_ptr<Graph>> graphs;
  std::vector<ProgramGraph> programs;
  for (ProductGraph& c : ProductGraphs()) {
    PassOptions options;
    options.target = target.get();
    options.own_matmul = OwnMatmul::kWherePossible;
    PassManager(LowerPasses()).Run(*c.graph, options);
    programs.push_back({c.name, c.graph.get()});
    graphs.push_back(std::move(c.graph));
  }
  const Plan plan = BuildPlan(programs, *target, {.plan_name = "products"});
  const auto own = [](const KernelModule& m) {
    return m.source.find("wgmma") != std::string::npos;
  };
  EXPECT_EQ(std::count_if(plan.modules.begin(), plan.modules.end(), own),
            static_cast<int>(graphs.size()));
  ExpectCompiles(plan, "products");
  ExpectProductsOverlap(plan);
}
TEST(CudaCompiles, small_products_with_epilogues) {
  const auto target = MakeRecordedTarget("h200");
  std::vector<std::unique_ptr<Graph>> graphs;
  std::vector<ProgramGraph> programs;
  std::vector<ProductGraph> cases = SmallProductGraphs();
  cases.push_back({"of state", SmallProductOfState()});
  for (ProductGraph& c : cases) {
    PassOptions options;
    options.target = target.get();
    PassManager(LowerPasses()).Run(*c.graph, options);
    programs.push_back({c.name, c.graph.get()});
    graphs.push_back(std::move(c.graph));
  }
  const Plan plan = BuildPlan(programs, *target, {.plan_name = "products"});
  const auto own = [](const KernelModule& m) {
    return m.source.find("st_small_product") != std::string::npos;
  };
  EXPECT_EQ(std::count_if(plan.modules.begin(), plan.modules.end(), own),
            static_cast<int>(graphs.size()));
  ExpectCompiles(plan, "products");
  const auto ahead = [](const KernelModule& m) {
    return m.source.rfind("P::load_b(") < m.source.rfind("st_await();");
  };
  EXPECT_EQ(std::count_if(plan.modules.begin(), plan.modules.end(), ahead), 1);  // that of a state
}
TEST(CudaCompiles, gpt_of_large_products) {
  const Plan plan = LargeGptPlanForGpu();
  int own = 0;
  for (const PlanStep& step : plan.FindProgram("train")->steps) {
    const auto* call = std::get_if<KernelCall>(&step.work);
    own += call != nullptr && !call->maps.empty();
  }
  EXPECT_EQ(own, 2);  // GELU and its gradient
  ExpectCompiles(plan, "gpt");
  ExpectProductsOverlap(plan);
}
TEST(CudaCompiles, samples_of_every_op) { ExpectCompiles(PlanFor(KernelCases()), "samples"); }
TEST(CudaCompiles, gradients_of_every_op) { ExpectCompiles(PlanFor(GradientCases()), "gradients"); }
TEST(CudaCompiles, odd_graphs) { ExpectCompiles(PlanFor(OddCases()), "odd"); }
TEST(CudaCompiles, gpt_in_f32) { ExpectCompiles(GptPlanForGpu(DType::kF32, 2), "gpt"); }
TEST(CudaCompiles, gpt_in_f16) { ExpectCompiles(GptPlanForGpu(DType::kF16, 2), "gpt"); }
TEST(CudaCompiles, gpt_in_bf16) { ExpectCompiles(GptPlanForGpu(DType::kBF16, 2), "gpt"); }
TEST(CudaCompiles, llama_in_f32) { ExpectCompiles(LlamaPlanForGpu(DType::kF32, 2), "llama"); }
TEST(CudaCompiles, llama_in_bf16) { ExpectCompiles(LlamaPlanForGpu(DType::kBF16, 2), "llama"); }

}  // namespace
}  // namespace stator
