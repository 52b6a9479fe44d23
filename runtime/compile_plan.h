// The device's half of CompilePlan: fills every module's key and binary from the cache or the
// compiler. Throws `Error` (kEnvironment) without a compiler, (kUnsupported) in a build without it.
#pragma once

#include "runtime/executor.h"

namespace stator {

void CompileCpuPlan(Plan& plan, const ExecutorOptions& options);
void CompileCudaPlan(Plan& plan, const ExecutorOptions& options);

}  // namespace stator
