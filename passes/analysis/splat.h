// Values known when compiling.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace stator {

// The number that every element of `v` is: a constant, or movement of one.
std::optional<double> SplatOf(Value v);

}  // namespace stator
