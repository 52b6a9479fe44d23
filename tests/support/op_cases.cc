#include "tests/support/op_cases.h"

#include "ir/base/error.h"
#include "ir/builder.h"
#include "ir/interpreter.h"
#include "ir/text.h"

namespace stator {

Node* OnlyNode(const Graph& graph) {
  STATOR_CHECK(graph.num_nodes() == 1, "not a sample: ", PrintGraph(graph));
  return graph.first();
}

std::unique_ptr<Graph> InF64(const Graph& sample) {
  auto graph = std::make_unique<Graph>(sample.name());
  std::map<const Node*, Value> inputs;
  for (const Param& p : sample.inputs()) {
    Type type = p.node->type();
    if (IsFloat(type.dtype)) type.dtype = DType::kF64;
    inputs[p.node] = graph->AddInput(p.name, type);
  }
  const Node* node = OnlyNode(sample);
  std::vector<Value> operands;
  for (const Value& v : node->operands()) operands.push_back(v ? inputs.at(v.node) : Value{});
  AttrMap attrs = node->attrs();
  for (auto& [name, value] : attrs) {
    if (const DType* dtype = std::get_if<DType>(&value); dtype && IsFloat(*dtype))
      value = DType::kF64;
  }
  Node* copy = graph->AddNode(node->op().name, operands, attrs, "");
  for (int i = 0; i < copy->num_results(); ++i) graph->AddOutput("", copy->result(i));
  return graph;
}

std::unique_ptr<Graph> GradientGraph(const Graph& sample) {
  std::unique_ptr<Graph> graph = sample.Clone();
  Node* node = OnlyNode(*graph);
  Values dy;
  for (int i = 0; i < node->num_results(); ++i) {
    const bool has = IsFloat(node->type(i).dtype);
    dy.push_back(has ? graph->AddInput(StrCat("dy", i), node->type(i)) : Value{});
  }
  Builder b(*graph);
  const Values dx = node->op().grad(b, node->view(), dy);
  STATOR_CHECK(static_cast<int>(dx.size()) == node->num_operands(), node->op().name, ": ",
               dx.size(), " gradients of ", node->num_operands(), " operands");
  graph->RemoveOutputs([](const Output&) { return true; });
  for (int i = 0; i < node->num_operands(); ++i) {
    if (!dx[i]) continue;
    STATOR_CHECK(dx[i].type() == node->operand(i).type(), node->op().name, ": gradient ",
                 dx[i].type().ToString(), " of operand ", node->operand(i).type().ToString());
    graph->AddOutput(graph->ParamName(node->operand(i).node), dx[i]);
  }
  return graph;
}

NamedTensors Gradients(const Graph& sample, const NamedTensors& inputs, const NamedTensors& dy) {
  const std::unique_ptr<Graph> graph = GradientGraph(sample);
  NamedTensors params = inputs;
  params.insert(dy.begin(), dy.end());
  const InterpreterResult result = Interpret(*graph, params);
  NamedTensors gradients;
  for (size_t i = 0; i < graph->outputs().size(); ++i) {
    gradients.emplace(graph->outputs()[i].name, result.outputs[i]);
  }
  return gradients;
}

namespace {

NamedTensors ByName(const Graph& graph, const std::vector<Tensor>& operands) {
  NamedTensors inputs;
  for (size_t i = 0; i < operands.size(); ++i) inputs.emplace(graph.inputs()[i].name, operands[i]);
  return inputs;
}

}  // namespace

std::vector<Tensor> RunOp(const std::string& op, const std::string& sample,
                          const std::vector<Tensor>& operands) {
  const auto graph = ParseSample(DefaultOps().Get(op), sample);
  return Interpret(*graph, ByName(*graph, operands)).outputs;
}

NamedTensors RunGrad(const std::string& op, const std::string& sample,
                     const std::vector<Tensor>& operands, const std::vector<Tensor>& dy) {
  const auto graph = ParseSample(DefaultOps().Get(op), sample);
  const Node* node = OnlyNode(*graph);
  NamedTensors cotangents;
  for (int i = 0; i < node->num_results(); ++i) {
    if (!IsFloat(node->type(i).dtype)) continue;
    Tensor t(node->type(i));
    for (int64_t k = 0; k < t.size(); ++k) t.Set(k, i == 0 ? 1 : 0);
    cotangents.emplace(StrCat("dy", i), i < static_cast<int>(dy.size()) ? dy[i] : t);
  }
  return Gradients(*graph, ByName(*graph, operands), cotangents);
}

}  // namespace stator
