#include "ir/ops/ops.h"

namespace stator {

void AddDefaultOps(OpRegistry& ops) {
  AddSourceOps(ops);
  AddElementwiseOps(ops);
  AddFunctionOps(ops);
  AddLogicOps(ops);
  AddMovementOps(ops);
  AddRangeOps(ops);
  AddReduceOps(ops);
  AddFoldOps(ops);
  AddScanOps(ops);
  AddStatisticsOps(ops);
  AddGatherOps(ops);
  AddSortOps(ops);
  AddContractionOps(ops);
  AddNormalizationOps(ops);
  AddActivationOps(ops);
  AddRotaryOps(ops);
  AddLossOps(ops);
  AddLossHeadOps(ops);
  AddRandomOps(ops);
  AddAttentionOps(ops);
}

}  // namespace stator
