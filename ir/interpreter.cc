#include "ir/interpreter.h"

#include "ir/base/error.h"
#include "ir/expand.h"

namespace stator {
namespace {

// A composite without a reference is what its expansion says.
std::vector<Tensor> EvaluateByExpansion(const Node& node,
                                        const std::vector<const Tensor*>& operands) {
  Graph graph(node.op().name, node.graph()->ops());
  std::map<std::string, Tensor> params;
  std::vector<Value> inputs;
  for (int i = 0; i < node.num_operands(); ++i) {
    if (!node.operand(i)) {
      inputs.push_back({});
      continue;
    }
    const std::string name = StrCat("x", i);
    inputs.push_back(graph.AddInput(name, node.operand(i).type()));
    params.emplace(name, *operands[i]);
  }
  Node* copy = graph.AddNode(node.op().name, inputs, node.attrs(), node.scope());
  Builder b(graph);
  for (const Value& v : ExpandNode(b, *copy)) graph.AddOutput("", v);
  graph.Erase(copy);
  return Interpret(graph, params).outputs;
}

}  // namespace

std::vector<Tensor> EvaluateNode(const Node& node, const std::vector<const Tensor*>& operands) {
  const OpDef& op = node.op();
  if (!op.reference) {
    STATOR_CHECK(static_cast<bool>(op.expand), op.name, " has neither reference nor expansion");
    return EvaluateByExpansion(node, operands);
  }
  std::vector<Tensor> results;
  for (int i = 0; i < node.num_results(); ++i) results.emplace_back(node.type(i));
  op.reference(node.view(), operands, results);
  return results;
}

InterpreterResult Interpret(const Graph& graph, const std::map<std::string, Tensor>& params) {
  std::vector<std::vector<Tensor>> values(graph.max_id());
  // A value's tensors are freed after their last use, so that long graphs fit.
  std::vector<int> remaining(graph.max_id(), 0);
  for (const Node* n : graph.Nodes()) {
    for (const Value& v : n->operands()) remaining[v ? v.node->id() : 0] += v ? 1 : 0;
  }
  for (const Output& o : graph.outputs()) ++remaining[o.value.node->id()];
  for (const NextState& s : graph.next_states()) ++remaining[s.value.node->id()];

  for (const auto* list : {&graph.inputs(), &graph.states()}) {
    for (const Param& p : *list) {
      const auto it = params.find(p.name);
      if (it == params.end()) {
        Fail(ErrorCode::kInvalidArgument, "interpreter: no value for ", p.name);
      }
      if (it->second.type != p.node->type()) {
        Fail(ErrorCode::kInvalidArgument, "interpreter: ", p.name, " is ",
             p.node->type().ToString(), ", got ", it->second.type.ToString());
      }
      values[p.node->id()] = {it->second};
    }
  }
  for (const Node* n : graph.Nodes()) {
    std::vector<const Tensor*> operands;
    for (const Value& v : n->operands()) {
      operands.push_back(v ? &values[v.node->id()][v.index] : nullptr);
    }
    std::vector<Tensor> results = EvaluateNode(*n, operands);
    for (const Value& v : n->operands()) {
      if (v && --remaining[v.node->id()] == 0) values[v.node->id()].clear();
    }
    values[n->id()] = std::move(results);
  }
  InterpreterResult result;
  for (const Output& o : graph.outputs()) {
    result.outputs.push_back(values[o.value.node->id()][o.value.index]);
  }
  for (const NextState& s : graph.next_states()) {
    result.next_states.emplace(graph.ParamName(s.state), values[s.value.node->id()][s.value.index]);
  }
  return result;
}

}  // namespace stator
