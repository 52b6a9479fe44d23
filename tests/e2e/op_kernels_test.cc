// Generated C++ and CUDA equal the interpreter, fused and unfused, on every op's samples, on their
// gradients, and on graphs of odd shapes. STATOR_TEST_OPS=softmax looks at one op.
#include "ir/base/str.h"
#include "runtime/executor.h"
#include "tests/e2e/kernel_cases.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace stator {
namespace {

std::string Filter() {
  const char* filter = std::getenv("STATOR_TEST_OPS");
  return filter ? filter : "*";
}

std::vector<KernelCase> Samples() { return KernelCases(Filter()); }
std::vector<KernelCase> Gradients() { return GradientCases(Filter()); }

// Special values (NaN, infinities, zeros) where kernels must agree to the bit.
void Check(const std::vector<KernelCase>& cases, const Target& target) {
  if (cases.empty()) GTEST_SKIP() << "no case of " << Filter();
  for (const bool fuse : {true, false}) {
    const Plan plan = PlanOfCases(cases, target, fuse);
    for (const bool specials : {false, true}) {
      for (const std::string& failure : RunCases(cases, plan, specials)) {
        ADD_FAILURE() << (fuse ? "fused: " : "unfused: ") << failure;
      }
    }
  }
}

void CheckOnGpu(const std::vector<KernelCase>& cases) {
  std::string why;
  if (!HasCudaDevice(&why)) GTEST_SKIP() << why;
  Check(cases, *MakeCudaTarget(0));
}

TEST(OpKernels, samples_in_cpp) { Check(Samples(), *MakeCpuTarget()); }
TEST(OpKernels, gradients_in_cpp) { Check(Gradients(), *MakeCpuTarget()); }
TEST(OpKernels, odd_graphs_in_cpp) { Check(OddCases(), *MakeCpuTarget()); }

TEST(OpKernels, samples_in_cuda) { CheckOnGpu(Samples()); }
TEST(OpKernels, gradients_in_cuda) { CheckOnGpu(Gradients()); }
TEST(OpKernels, odd_graphs_in_cuda) { CheckOnGpu(OddCases()); }

}  // namespace
}  // namespace stator
