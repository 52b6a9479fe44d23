#include "ir/verifier.h"

#include "ir/base/error.h"
#include "ir/text.h"

namespace stator {

void VerifyGraph(const Graph& graph) {
  std::vector<char> defined(graph.max_id(), 0);
  // Operands are numbered through the graph: `first` of a node's, and which have been found in a
  // list of uses.
  std::vector<int> first(graph.max_id(), -1);
  int operands = 0;
  for (const auto* list : {&graph.inputs(), &graph.states()}) {
    for (const Param& p : *list) defined[p.node->id()] = 1;
  }
  for (const Node* n = graph.first(); n != nullptr; n = n->next()) {
    first[n->id()] = operands;
    operands += n->num_operands();
    for (int i = 0; i < n->num_operands(); ++i) {
      const Value v = n->operand(i);
      if (!v) continue;
      if (v.node->graph() != &graph || v.node->id() >= graph.max_id() || !defined[v.node->id()]) {
        Fail(ErrorCode::kInvalidArgument, n->view().Where(), ": operand ", i,
             " is used before it is defined");
      }
      if (v.index >= v.node->num_results()) {
        Fail(ErrorCode::kInvalidArgument, n->view().Where(), ": operand ", i,
             " names a result that does not exist");
      }
    }
    if (n->inferred()) {
      defined[n->id()] = 1;
      continue;
    }
    Types types;
    if (n->op().infer) {
      types = n->op().infer(n->view());
    } else {
      types = {n->operand(0).type()};
      for (const Value& v : n->operands()) {
        if (v.type() != types[0]) {
          Fail(ErrorCode::kInvalidArgument, n->view().Where(),
               ": operand types differ: ", types[0].ToString(), " vs ", v.type().ToString());
        }
      }
    }
    for (int i = 0; i < n->num_results(); ++i) {
      if (static_cast<int>(types.size()) != n->num_results() || types[i] != n->type(i)) {
        Fail(ErrorCode::kInvalidArgument, n->view().Where(), ": result ", i, " is ",
             n->type(i).ToString(), ", inference says ",
             i < static_cast<int>(types.size()) ? types[i].ToString() : "nothing");
      }
    }
    defined[n->id()] = 1;
  }
  // Every operand stands in the list of its node's uses once, and nothing else stands there.
  std::vector<char> listed(operands, 0);
  const auto check_uses = [&](const Node& n) {
    for (const Use& u : n.uses()) {
      const bool holds = first[u.node->id()] >= 0 && u.operand < u.node->num_operands() &&
                         u.node->operand(u.operand).node == &n;
      STATOR_CHECK(holds && !listed[first[u.node->id()] + u.operand],
                   "use list out of step: ", PrintNode(n));
      listed[first[u.node->id()] + u.operand] = 1;
    }
  };
  for (const Node* n = graph.first(); n != nullptr; n = n->next()) check_uses(*n);
  for (const auto* list : {&graph.inputs(), &graph.states()}) {
    for (const Param& p : *list) check_uses(*p.node);
  }
  for (const Node* n = graph.first(); n != nullptr; n = n->next()) {
    for (int i = 0; i < n->num_operands(); ++i) {
      STATOR_CHECK(!n->operand(i) || listed[first[n->id()] + i],
                   "use list out of step: ", PrintNode(*n));
    }
  }
  for (const Output& o : graph.outputs()) {
    if (!o.value || !defined[o.value.node->id()]) {
      Fail(ErrorCode::kInvalidArgument, "output ", o.name, " is not defined in ", graph.name());
    }
  }
  for (const NextState& s : graph.next_states()) {
    if (!defined[s.value.node->id()] || s.value.type() != s.state->type()) {
      Fail(ErrorCode::kInvalidArgument, "next value of state ", graph.ParamName(s.state),
           " is undefined or has another type");
    }
  }
}

}  // namespace stator
