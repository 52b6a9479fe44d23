// The interpreter beside a running program: each node is evaluated on the operands that the device
// has computed, so that a difference belongs to that node alone and does not grow along the way.
#pragma once

#include "frontend/driver/agreement.h"
#include "ir/graph.h"
#include "ir/tensor.h"

#include <map>
#include <string>
#include <vector>

namespace stator {

// Work of one interpretation, in operations; an estimate.
double ReferenceCost(const Graph& graph);

class ReferenceWalk {
 public:
  // `params`: the program's inputs and its states before it runs.
  ReferenceWalk(const Graph& graph, std::map<std::string, Tensor> params);

  // Compares `device`, what the program computed for `v`, with what the interpreter makes of the
  // operands. Values come in the order of the steps that write them.
  Difference Check(Value v, Tensor device);

 private:
  // Known already, or evaluated: views, literals and what nobody stores.
  const Tensor& Get(Value v);
  const std::vector<Tensor>& Evaluate(const Node& node);
  void Release(const Node& node);

  std::map<const Node*, std::vector<Tensor>> values_;  // of nodes still to be read
  std::map<const Node*, int> readers_;
  std::map<const Node*, std::vector<Tensor>> expected_;  // of nodes with several results
};

}  // namespace stator
