#include "ir/verifier.h"

#include "ir/base/error.h"
#include "ir/text.h"

#include <algorithm>

namespace stator {

void VerifyGraph(const Graph& graph) {
  std::vector<char> defined(graph.max_id(), 0);
  std::vector<size_t> reads(graph.max_id(), 0);  // of a node's results by operands
  for (const auto* list : {&graph.inputs(), &graph.states()}) {
    for (const Param& p : *list) defined[p.node->id()] = 1;
  }
  for (const Node* n = graph.first(); n != nullptr; n = n->next()) {
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
      ++reads[v.node->id()];
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
  const auto check_uses = [&](const Node& n) {
    const auto holds = [&](const Use& u) { return u.node->operand(u.operand).node == &n; };
    STATOR_CHECK(
        n.uses().size() == reads[n.id()] && std::all_of(n.uses().begin(), n.uses().end(), holds),
        "use list out of step: ", PrintNode(n));
  };
  for (const Node* n = graph.first(); n != nullptr; n = n->next()) check_uses(*n);
  for (const auto* list : {&graph.inputs(), &graph.states()}) {
    for (const Param& p : *list) check_uses(*p.node);
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
