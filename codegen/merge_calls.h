// Horizontal fusion: several calls of one kernel, on buffers that have nothing to do with each other,
// become one call of a kernel whose blocks find their buffers in a table. Every block computes what
// it did before, so that no bit changes; what goes are launches and half-empty waves.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "codegen/plan.h"

namespace stator {

// How many calls of a kernel of `args` arguments fit one table.
size_t MostMerged(size_t args);

struct MergedCall {
  std::string body;  // of the kernel, named by kKernelName
  KernelCall call;   // without the kernel's index
};

// `body` is the text of the kernel that all `calls` call. Empty body: this kernel cannot be merged.
MergedCall MergeCalls(const std::string& body, Language language, std::span<const KernelCall> calls);

}  // namespace stator
