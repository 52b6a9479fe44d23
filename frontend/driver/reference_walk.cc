#include "frontend/driver/reference_walk.h"

#include "ir/base/error.h"
#include "ir/interpreter.h"

namespace stator {

double ReferenceCost(const Graph& graph) {
  double cost = 0;
  for (const Node* n : graph.Nodes()) {
    cost += n->op().flops ? n->op().flops(n->view()) : static_cast<double>(n->type().NumElements());
  }
  return cost;
}

ReferenceWalk::ReferenceWalk(const Graph& graph, std::map<std::string, Tensor> params) {
  for (const Node* n : graph.Nodes()) {
    for (const Value& v : n->operands()) {
      if (v) ++readers_[v.node];
    }
  }
  for (const auto* list : {&graph.inputs(), &graph.states()}) {
    for (const Param& p : *list) values_[p.node] = {std::move(params.at(p.name))};
  }
}

const Tensor& ReferenceWalk::Get(Value v) {
  const auto it = values_.find(v.node);
  if (it == values_.end()) {
    std::vector<Tensor> results = Evaluate(*v.node);
    expected_.erase(v.node);
    return (values_[v.node] = std::move(results))[v.index];
  }
  if (it->second[v.index].type == v.type()) return it->second[v.index];
  // A result that the device does not store, of a node whose others it does.
  return it->second[v.index] = expected_.at(v.node)[v.index];
}

const std::vector<Tensor>& ReferenceWalk::Evaluate(const Node& node) {
  if (const auto it = expected_.find(&node); it != expected_.end()) return it->second;
  std::vector<const Tensor*> operands;
  for (const Value& v : node.operands()) operands.push_back(v ? &Get(v) : nullptr);
  std::vector<Tensor> results = EvaluateNode(node, operands);
  Release(node);
  return expected_[&node] = std::move(results);
}

// `node` has read its operands.
void ReferenceWalk::Release(const Node& node) {
  for (const Value& v : node.operands()) {
    if (!v || --readers_[v.node] > 0) continue;
    values_.erase(v.node);
    expected_.erase(v.node);
  }
}

Difference ReferenceWalk::Check(Value v, Tensor device) {
  const Tensor& want = Evaluate(*v.node)[v.index];
  const Difference difference = Compare(device, want, IsExact(*v.node) ? 0 : ToleranceOf(*v.node));
  std::vector<Tensor>& results = values_[v.node];
  results.resize(v.node->num_results());
  results[v.index] = std::move(device);
  if (v.node->num_results() == 1) {
    expected_.erase(v.node);
    if (readers_[v.node] == 0) values_.erase(v.node);
  }
  return difference;
}

}  // namespace stator
