// CUDA C++ of the kernels that plans call by name rather than carry.
#pragma once

#include "ir/dtype.h"

#include <string>

// What every kernel begins with, as the prelude of codegen has it.
#define STATOR_BEGIN_KERNEL                                    \
  "static __device__ __forceinline__ void st_begin() {\n"      \
  "#if __CUDA_ARCH__ >= 900\n"                                 \
  "  asm volatile(\"griddepcontrol.launch_dependents;\");\n"   \
  "  asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n" \
  "#endif\n}\n"

namespace stator {

// sort_keys_<dtype>, sort_histogram, sort_scan, sort_scatter, sort_emit_<bytes>: see sort.cc.
extern const char kSortSource[];

// Defines the types and the vector width that kSegmentSumSource is written in. `vector` updates of
// one row are read at once.
std::string SegmentSumSource(DType updates, DType out, DType ids, int vector, bool accumulate);

// attention_clear, attention_clear_lse: see attention_clear.cc.
extern const char kAttentionClearSource[];

// short_attention, short_attention_grad: see short_attention.cc. `rows` queries and keys of bf16 or
// f16 heads of `head` elements, multiples of 16.
std::string ShortAttentionSource(DType dtype, int64_t rows, int64_t head, bool causal);

}  // namespace stator
