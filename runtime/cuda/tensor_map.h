// Tensor maps: what a kernel's bulk copies are told of an operand (TileMap in codegen/plan.h).
#pragma once

#include "codegen/plan.h"
#include "runtime/cuda/resources.h"

#include <array>
#include <cstdint>

namespace stator {

// The driver's CUtensorMap, as it is passed by value to a kernel.
struct alignas(64) TensorMap {
  std::array<uint64_t, 16> words{};
};

// Throws `Error` naming `name` when the driver refuses the map.
TensorMap MakeTensorMap(const TileMap& map, const SpaceMap& spaces, const std::string& name);

}  // namespace stator
