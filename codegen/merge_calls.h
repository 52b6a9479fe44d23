// Horizontal fusion: several calls, on buffers that have nothing to do with each other, become one
// call of a kernel whose blocks find what to do and their buffers in a table. Every block computes
// what it did before, so that no bit changes; what goes are launches and half-empty waves.
#pragma once

#include "codegen/plan.h"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace stator {

// How many arguments fit one table.
size_t MostArguments();

// What the text of a kernel says about merging calls of it.
struct MergeNeeds {
  bool merges = false;  // with each other
  bool mixes = false;   // with those of others: on a GPU, with few threads a block
  std::map<std::string, int64_t> shared;  // the helpers that have static shared memory, bytes
};
MergeNeeds NeedsOf(const std::string& body, Language language, const KernelCall& call);

inline constexpr int64_t kMixedShared = 32
                                        << 10;  // bytes of static shared memory of a mixed kernel

struct SameCalls {
  std::string body;  // the text of the kernel that all `calls` call
  std::vector<KernelCall> calls;
};

struct MergedCall {
  std::string body;  // of the kernel, named by kKernelName
  KernelCall call;   // without the kernel's index
};

// All of `groups`, which can be merged; more than one of them only for CUDA.
MergedCall MergeCalls(Language language, std::span<const SameCalls> groups);

}  // namespace stator
