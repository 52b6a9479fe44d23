// The reference interpreter: the definition of every op, simple and slow.
#pragma once

#include "ir/graph.h"
#include "ir/tensor.h"

#include <map>
#include <string>
#include <vector>

namespace stator {

struct InterpreterResult {
  std::vector<Tensor> outputs;                // in the graph's order
  std::map<std::string, Tensor> next_states;  // of states that have one
};

// Evaluates `graph` on inputs and states by name. Throws `Error` for a missing or mistyped one.
InterpreterResult Interpret(const Graph& graph, const std::map<std::string, Tensor>& params);

// One node on given operands (null for absent ones).
std::vector<Tensor> EvaluateNode(const Node& node, const std::vector<const Tensor*>& operands);

}  // namespace stator
