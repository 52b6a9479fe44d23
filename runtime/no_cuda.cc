// The CUDA entry points of a build without CUDA: they say so.
#ifndef STATOR_WITH_CUDA

#include "ir/base/error.h"
#include "runtime/compile_plan.h"

namespace stator {
namespace {

constexpr const char* kNoCuda =
    "this stator was built without CUDA: install a CUDA 13 toolkit and build again";

[[noreturn]] void FailWithoutCuda() { throw Error(ErrorCode::kUnsupported, kNoCuda); }

}  // namespace

std::unique_ptr<Executor> MakeCudaExecutor(Plan, const ExecutorOptions&) { FailWithoutCuda(); }

void CompileCudaPlan(Plan&, const ExecutorOptions&) { FailWithoutCuda(); }

std::unique_ptr<Target> MakeCudaTarget(int) { FailWithoutCuda(); }

bool HasCudaDevice(std::string* why_not) {
  if (why_not != nullptr) *why_not = kNoCuda;
  return false;
}

}  // namespace stator

#endif  // STATOR_WITH_CUDA
