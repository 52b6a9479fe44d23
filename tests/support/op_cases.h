// Running one op by itself: its results, its gradient, and the same op on f64.
#pragma once

#include "ir/graph.h"
#include "ir/tensor.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace stator {

using NamedTensors = std::map<std::string, Tensor>;

// The one node of a sample's graph.
Node* OnlyNode(const Graph& graph);

// The sample's op with every float operand and float dtype attribute f64.
std::unique_ptr<Graph> InF64(const Graph& sample);

// A graph like `sample` that returns, for each operand with a gradient, that gradient under the
// cotangents "dy0", "dy1", ... (inputs, one for each float result). Outputs are named after
// operands.
std::unique_ptr<Graph> GradientGraph(const Graph& sample);

// Gradients by operand name, for given inputs and cotangents ("dy0", ...).
NamedTensors Gradients(const Graph& sample, const NamedTensors& inputs, const NamedTensors& dy);

// Results of a sample like "(f32[4], f32[4]) {axis=0}" of op `op` on operands given by position.
std::vector<Tensor> RunOp(const std::string& op, const std::string& sample,
                          const std::vector<Tensor>& operands);
// Gradients by operand name; cotangents by result, by default ones for the first and zeros for
// others.
NamedTensors RunGrad(const std::string& op, const std::string& sample,
                     const std::vector<Tensor>& operands, const std::vector<Tensor>& dy = {});

}  // namespace stator
