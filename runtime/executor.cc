#include "runtime/executor.h"

#include "ir/base/error.h"
#include "runtime/compile_plan.h"

namespace stator {

std::unique_ptr<Executor> MakeExecutor(Plan plan, const ExecutorOptions& options) {
  if (plan.device == DeviceKind::kCuda) return MakeCudaExecutor(std::move(plan), options);
  return MakeCpuExecutor(std::move(plan), options);
}

void CompilePlan(Plan& plan, const ExecutorOptions& options) {
  if (plan.device == DeviceKind::kCuda) return CompileCudaPlan(plan, options);
  CompileCpuPlan(plan, options);
}

}  // namespace stator
