// The op records, one function a family; AddDefaultOps lists them.
#pragma once

#include "ir/op_registry.h"

namespace stator {

void AddDefaultOps(OpRegistry& ops);

void AddSourceOps(OpRegistry& ops);       // input, state, constant, iota
void AddElementwiseOps(OpRegistry& ops);  // arithmetic, comparison, select, cast, functions
void AddMovementOps(OpRegistry& ops);     // broadcast, reshape, transpose, slice, concat, pad
void AddReduceOps(OpRegistry& ops);       // sum, max, min, prod
void AddContractionOps(OpRegistry& ops);  // matmul
void AddNormalizationOps(OpRegistry& ops);// softmax, norms

}  // namespace stator
