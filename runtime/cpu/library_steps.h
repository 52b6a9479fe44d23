// Steps of a plan that are no generated kernels: run on the calling thread and OpenMP's.
#pragma once

#include "codegen/plan.h"
#include "runtime/cpu/memory.h"
#include "runtime/cpu/scratch.h"

namespace stator {

ScratchNeed SortScratch(const SortCall& call);
void RunSort(const SortCall& call, const CpuMemory& memory, const CpuScratch& scratch);

ScratchNeed SegmentSumScratch(const SegmentSumCall& call);
// Throws `Error` for an index that is no row.
void RunSegmentSum(const SegmentSumCall& call, const CpuMemory& memory, const CpuScratch& scratch);

ScratchNeed AttentionScratch(const AttentionCall& call);
void RunAttention(const AttentionCall& call, const CpuMemory& memory, const CpuScratch& scratch);

void RunFill(const FillCall& call, const CpuMemory& memory);
void RunCopy(const CopyCall& call, const CpuMemory& memory);

}  // namespace stator
