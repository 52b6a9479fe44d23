// Sums of rows by index, in the fixed order of ir/reduce_tree.h: sort, then segmented sums.
#pragma once

#include "codegen/plan.h"
#include "runtime/cuda/library.h"
#include "runtime/cuda/resources.h"
#include "runtime/cuda/step.h"

#include <cstdint>
#include <string>

namespace stator {

int64_t SegmentSumWorkspace(const SegmentSumCall& call);  // bytes

// The source of the call's kernels; throws `Error` with `name` for tensors it has no kernels for.
std::string SegmentSumSourceFor(const SegmentSumCall& call, const std::string& name);

// `workspace` has SegmentSumWorkspace(call) bytes; `sort` is kSortSource, `library` the source
// above.
CudaStepPtr PrepareSegmentSum(const SegmentSumCall& call, const SpaceMap& spaces, char* workspace,
                              const CudaLibrary& sort, const CudaLibrary& library);

}  // namespace stator
