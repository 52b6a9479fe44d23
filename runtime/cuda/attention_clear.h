// Batch entries whose key length is 0: cuDNN gives NaN for them, the op says out = 0, lse = -inf
// and gradients of 0.
#pragma once

#include "codegen/plan.h"
#include "runtime/cuda/library.h"
#include "runtime/cuda/resources.h"
#include "runtime/cuda/step.h"

namespace stator {

inline bool NeedsClear(const AttentionCall& call) { return static_cast<bool>(call.key_lengths); }

// `attention` followed by the clearing of its results; `library` is kAttentionClearSource.
CudaStepPtr ClearAfter(CudaStepPtr attention, const AttentionCall& call, const SpaceMap& spaces,
                       const CudaLibrary& library);

}  // namespace stator
