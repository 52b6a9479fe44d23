// Generated C++ equals the interpreter, fused and unfused, on every op's samples.
#include <gtest/gtest.h>

#include <cstdlib>

#include "ir/base/str.h"
#include "runtime/executor.h"
#include "tests/e2e/kernel_cases.h"

namespace stator {
namespace {

std::string Filter() {
  const char* filter = std::getenv("STATOR_TEST_OPS");
  return filter ? filter : "*";
}

void Check(const Target& target, bool fuse, bool specials) {
  const auto cases = KernelCases(Filter());
  ASSERT_FALSE(cases.empty());
  for (const std::string& failure : RunCases(cases, PlanOfCases(cases, target, fuse), specials)) {
    ADD_FAILURE() << failure;
  }
}

TEST(OpKernels, CppEqualsInterpreter) { Check(*MakeCpuTarget(), true, false); }
TEST(OpKernels, CppEqualsInterpreterOnSpecialValues) { Check(*MakeCpuTarget(), true, true); }

TEST(OpKernels, CudaEqualsInterpreter) {
  std::string why;
  if (!HasCudaDevice(&why)) GTEST_SKIP() << why;
  Check(*MakeCudaTarget(0), true, false);
}
TEST(OpKernels, CudaEqualsInterpreterOnSpecialValues) {
  std::string why;
  if (!HasCudaDevice(&why)) GTEST_SKIP() << why;
  Check(*MakeCudaTarget(0), true, true);
}

}  // namespace
}  // namespace stator
