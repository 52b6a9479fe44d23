// Every kernel that the emitter makes of an op's samples, of their gradients, of odd graphs and of small
// models is CUDA that NVRTC takes, for every architecture we name. No GPU is needed.
#include <array>
#include <chrono>
#include <cstdio>
#include <thread>

#include "ir/base/error.h"
#if STATOR_WITH_NVRTC
#include "runtime/cuda/nvrtc.h"
#endif
#include "runtime/executor.h"
#include "tests/codegen/cuda_models.h"
#include "tests/e2e/kernel_cases.h"

#include <gtest/gtest.h>

namespace stator {
namespace {

constexpr std::array kArchitectures = {80, 86, 89, 90, 100};
constexpr int kThreads = 2;

#if STATOR_WITH_NVRTC
// "" or the first error, by architecture.
std::array<std::string, kArchitectures.size()> CompileForAll(const std::string& source,
                                                             const std::string& name) {
  std::array<std::string, kArchitectures.size()> errors;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t k = t; k < kArchitectures.size(); k += kThreads) {
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

Plan PlanFor(const std::vector<KernelCase>& cases) {
  return PlanOfCases(cases, *MakeRecordedTarget("h200"), /*fuse=*/true);
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
