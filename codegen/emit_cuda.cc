// Which loop nest a region has on CUDA.
#include "codegen/emit_region.h"

namespace stator {

CudaLimits LimitsOf(int sm) {
  switch (sm) {
    case 80:
      return {164 << 10, 108};
    case 86:
      return {100 << 10, 82};
    case 89:
      return {100 << 10, 128};
    case 90:
      return {228 << 10, 132, 16};
    case 100:
      return {228 << 10, 148, 16};
    default:
      return {100 << 10, 108};
  }
}

EmittedKernel EmitCuda(const RegionParts& parts, const CudaLimits& limits) {
  if (auto kernel = EmitLongRows(parts, limits)) return *std::move(kernel);
  switch (parts.space.kind) {
    case SpaceKind::kPointwise:
      return EmitPointwise(parts);
    case SpaceKind::kRow:
      return EmitRows(parts);
    case SpaceKind::kColumn:
      return EmitColumns(parts);
    case SpaceKind::kRowColumn:
      break;
  }
  if (auto kernel = EmitRing(parts, limits)) return *std::move(kernel);
  return EmitRows(parts);
}

}  // namespace stator
