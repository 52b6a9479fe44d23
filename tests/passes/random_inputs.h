// Deterministic values for the inputs and states of a graph.
#pragma once

#include "ir/graph.h"
#include "ir/tensor.h"

#include <map>
#include <string>

namespace stator::testing {

// Floats in [-1, 1), integers 0 to 2, from a hash of name and position. Names in `given` keep their
// values; derived states `<name>.<dtype>` are their masters, rounded; halves are those of what they
// are half of; other states that are not parameters start at zero.
std::map<std::string, Tensor> RandomParams(const Graph& graph,
                                           std::map<std::string, Tensor> given = {});

}  // namespace stator::testing
