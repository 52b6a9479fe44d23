// Attention over few rows: one launch a call, where a library's fused kernels, made for long
// sequences, take many times what the arithmetic does. Deterministic.
#pragma once

#include "codegen/plan.h"
#include "runtime/cuda/library.h"
#include "runtime/cuda/resources.h"
#include "runtime/cuda/step.h"

#include <string>

namespace stator {

// Whether the kernels take the call on a device of compute capability `sm`: up to 128 queries and
// as many keys, heads of up to 64 elements, both multiples of 16; bf16 or f16, causal or not, and
// nothing else of what attention can have; few heads in all.
bool IsShortAttention(const AttentionCall& call, int sm);

std::string ShortAttentionSourceFor(const AttentionCall& call);

CudaStepPtr PrepareShortAttention(const AttentionCall& call, const SpaceMap& spaces,
                                  const CudaLibrary& library, const std::string& name);

}  // namespace stator
