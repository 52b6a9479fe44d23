#include "ir/ops/ops.h"

namespace stator {

void AddDefaultOps(OpRegistry& ops) {
  AddSourceOps(ops);
  AddElementwiseOps(ops);
  AddMovementOps(ops);
  AddReduceOps(ops);
  AddContractionOps(ops);
  AddNormalizationOps(ops);
}

}  // namespace stator
