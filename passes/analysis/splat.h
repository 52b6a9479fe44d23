// Values known when compiling.
#pragma once

#include "ir/graph.h"

#include <optional>

namespace stator {

// The number that every element of `v` is: a constant, or movement of one.
std::optional<double> SplatOf(Value v);

}  // namespace stator
