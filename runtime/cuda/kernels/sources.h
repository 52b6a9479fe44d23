// CUDA C++ of the kernels that plans call by name rather than carry.
#pragma once

#include "ir/dtype.h"

#include <string>

namespace stator {

// sort_keys_<dtype>, sort_histogram, sort_scan, sort_scatter, sort_emit_<bytes>: see sort.cc.
extern const char kSortSource[];

// Defines the types and the vector width that kSegmentSumSource is written in. `vector` updates of
// one row are read at once.
std::string SegmentSumSource(DType updates, DType out, DType ids, int vector, bool accumulate);

// attention_clear, attention_clear_lse: see attention_clear.cc.
extern const char kAttentionClearSource[];

}  // namespace stator
