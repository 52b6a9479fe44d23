// The op records, one function a family; AddDefaultOps lists them.
#pragma once

#include "ir/op_registry.h"

namespace stator {

void AddDefaultOps(OpRegistry& ops);

void AddSourceOps(OpRegistry& ops);         // input, state, constant, iota
void AddElementwiseOps(OpRegistry& ops);    // arithmetic; the scalar language is documented there
void AddFunctionOps(OpRegistry& ops);       // exp, log, roots, tanh, erf, ...
void AddLogicOps(OpRegistry& ops);          // comparison, logic, select, cast
void AddMovementOps(OpRegistry& ops);       // broadcast, reshape, transpose
void AddRangeOps(OpRegistry& ops);          // slice, concat, pad
void AddReduceOps(OpRegistry& ops);         // sum, max, min, prod, any, all
void AddFoldOps(OpRegistry& ops);           // fold, the canonical reduction
void AddScanOps(OpRegistry& ops);           // cumsum
void AddStatisticsOps(OpRegistry& ops);     // mean, variance, logsumexp, argmax
void AddGatherOps(OpRegistry& ops);         // gather, take_along, segment_sum
void AddSortOps(OpRegistry& ops);           // sort, top_k
void AddContractionOps(OpRegistry& ops);    // matmul
void AddNormalizationOps(OpRegistry& ops);  // softmax, norms
void AddActivationOps(OpRegistry& ops);     // gelu, silu, relu, softplus
void AddRotaryOps(OpRegistry& ops);         // rotary position embedding
void AddLossOps(OpRegistry& ops);           // cross_entropy
void AddLossHeadOps(OpRegistry& ops);       // linear_cross_entropy and its gradient
void AddRandomOps(OpRegistry& ops);         // random_bits, uniform, dropout
void AddAttentionOps(OpRegistry& ops);      // attention, attention_grad

}  // namespace stator
