#include "passes/analysis/shadows.h"

#include "ir/base/str.h"
#include "ir/builder.h"
#include "ir/facts.h"

namespace stator {

bool IsShadow(const Node& state) { return state.view().Str("role") == "shadow"; }

std::string ShadowedName(std::string_view shadow) {
  return std::string(shadow.substr(0, shadow.rfind('.')));
}

Value ShadowOf(Graph& graph, Value parameter, DType dtype) {
  const std::string name = StrCat(graph.ParamName(parameter.node), '.', Name(dtype));
  if (const Value shadow = graph.FindState(name)) return shadow;
  AttrMap attrs = parameter.node->attrs();
  attrs["role"] = std::string("shadow");
  attrs["derived"] = true;
  return graph.AddState(name, {dtype, parameter.shape()}, attrs);
}

void UpdateShadows(Graph& graph) {
  Builder b(graph);
  b.default_facts()[std::string(fact::kPhase)] = std::string("update");
  for (const Param& p : graph.states()) {
    if (!IsShadow(*p.node) || graph.FindNextState(p.node)) continue;
    const std::string master = ShadowedName(p.name);
    const Value next = graph.FindNextState(graph.FindState(master).node);
    if (!next) continue;
    b.SetScope(master);
    graph.SetNextState(p.node->result(), b.Cast(next, p.node->type().dtype));
  }
}

}  // namespace stator
