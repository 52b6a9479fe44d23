#include "ir/base/str.h"
#include "ir/text.h"

#include <map>

namespace stator {
namespace {

class Printer {
 public:
  explicit Printer(const Graph& graph) {
    for (const auto* list : {&graph.inputs(), &graph.states()}) {
      for (const Param& p : *list) names_[p.node->id()].push_back(StrCat('%', p.name));
    }
    int next = 0;
    for (const Node* n : graph.Nodes()) {
      auto& names = names_[n->id()];
      for (int i = 0; i < n->num_results(); ++i) names.push_back(StrCat('%', next++));
    }
  }

  std::string Name(Value v) const {
    if (!v) return "_";
    const auto it = names_.find(v.node->id());
    return it == names_.end() ? "%?" : it->second[v.index];
  }

  std::string Line(const Node& n) const {
    std::vector<std::string> results, operands, types;
    for (int i = 0; i < n.num_results(); ++i) {
      results.push_back(Name({const_cast<Node*>(&n), i}));
      types.push_back(n.type(i).ToString());
    }
    size_t last = n.num_operands();
    while (last > 0 && !n.operand(static_cast<int>(last) - 1)) --last;  // trailing absent ones
    for (size_t i = 0; i < last; ++i) operands.push_back(Name(n.operand(static_cast<int>(i))));
    std::string line =
        StrCat(Join(results, ", "), " = ", n.op().name, "(", Join(operands, ", "), ")");
    const AttrMap attrs = NonDefault(n);
    if (!attrs.empty()) line += StrCat(' ', FormatAttrs(attrs));
    line += StrCat(" : ", Join(types, ", "));
    if (!n.scope().empty()) line += StrCat(" @", FormatAttr(n.scope()));
    if (!n.facts().empty()) line += StrCat(" #", FormatAttrs(n.facts()));
    return line;
  }

  static AttrMap NonDefault(const Node& n) {
    AttrMap attrs;
    for (const AttrDef& a : n.op().attrs) {
      const Attr& value = n.attrs().at(a.name);
      if (a.required || value != a.value) attrs.emplace(a.name, value);
    }
    return attrs;
  }

 private:
  std::map<int, std::vector<std::string>> names_;
};

std::string ParamText(const Param& p, const char* keyword) {
  std::string text = StrCat(keyword, '%', p.name, ": ", p.node->type().ToString());
  AttrMap attrs = Printer::NonDefault(*p.node);
  attrs.erase("dtype");
  attrs.erase("shape");
  if (!attrs.empty()) text += StrCat(' ', FormatAttrs(attrs));
  if (!p.node->facts().empty()) text += StrCat(" #", FormatAttrs(p.node->facts()));
  return text;
}

}  // namespace

std::string PrintNode(const Node& node) { return Printer(*node.graph()).Line(node); }

std::string PrintGraph(const Graph& graph) {
  const Printer printer(graph);
  std::vector<std::string> params, types;
  for (const Param& p : graph.inputs()) params.push_back(ParamText(p, ""));
  for (const Param& p : graph.states()) params.push_back(ParamText(p, "state "));
  for (const Output& o : graph.outputs()) types.push_back(o.value.type().ToString());
  std::string text = StrCat("graph @", graph.name(), "(");
  size_t width = text.size();
  for (const std::string& p : params) width += p.size() + 2;
  const bool wrap = width > 90;
  for (size_t i = 0; i < params.size(); ++i) {
    text += wrap ? "\n    " : (i > 0 ? " " : "");
    text += params[i];
    if (i + 1 < params.size()) text += ',';
  }
  text += ')';
  if (types.size() == 1) text += StrCat(" -> ", types[0]);
  if (types.size() > 1) text += StrCat(" -> (", Join(types, ", "), ")");
  text += " {\n";
  for (const Node* n : graph.Nodes()) text += StrCat("  ", printer.Line(*n), "\n");
  std::vector<std::string> outputs;
  for (const Output& o : graph.outputs()) {
    outputs.push_back(o.name.empty() ? printer.Name(o.value)
                                     : StrCat(o.name, "=", printer.Name(o.value)));
  }
  text += outputs.empty() ? "  return\n" : StrCat("  return ", Join(outputs, ", "), "\n");
  for (const NextState& s : graph.next_states()) {
    text += StrCat("  next %", graph.ParamName(s.state), " = ", printer.Name(s.value), "\n");
  }
  return text + "}\n";
}

}  // namespace stator
