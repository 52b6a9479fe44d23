// Recursive-descent parser of the text form.
#include "ir/base/error.h"
#include "ir/builder.h"
#include "ir/facts.h"
#include "ir/text.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

namespace stator {
namespace {

class Parser {
 public:
  Parser(std::string_view text, const OpRegistry& ops) : text_(text), ops_(&ops) {}

  std::unique_ptr<Graph> Parse() {
    Expect("graph");
    Expect("@");
    graph_ = std::make_unique<Graph>(Word(), *ops_);
    Expect("(");
    while (!Accept(")")) {
      ParseParam();
      if (!Peek(")")) Expect(",");
    }
    Types types;
    if (Accept("->")) {
      if (Accept("(")) {
        do types.push_back(ParseType());
        while (Accept(","));
        Expect(")");
      } else {
        types.push_back(ParseType());
      }
    }
    Expect("{");
    while (!PeekWord("return")) ParseNode();
    ParseReturn(types);
    while (PeekWord("next")) ParseNext();
    Expect("}");
    SkipSpace();
    if (at_ < text_.size()) Die("text after the graph");
    return std::move(graph_);
  }

  // "(f32[4], _) {axis=1}" -> operand types (null dtype never occurs; absent ones are flagged).
  struct SampleParts {
    std::vector<std::pair<bool, Type>> operands;
    AttrMap attrs;
  };
  SampleParts ParseSampleParts() {
    SampleParts parts;
    Expect("(");
    while (!Accept(")")) {
      if (Accept("_")) {
        parts.operands.push_back({false, {}});
      } else {
        parts.operands.push_back({true, ParseType()});
      }
      if (!Peek(")")) Expect(",");
    }
    if (Peek("{")) parts.attrs = ParseAttrs();
    SkipSpace();
    if (at_ < text_.size()) Die("text after the sample");
    return parts;
  }

 private:
  [[noreturn]] void Die(const std::string& what) const {
    int line = 1, column = 1;
    for (size_t i = 0; i < at_ && i < text_.size(); ++i) {
      if (text_[i] == '\n') {
        ++line, column = 1;
      } else {
        ++column;
      }
    }
    Fail(ErrorCode::kParse, "line ", line, ", column ", column, ": ", what);
  }

  void SkipSpace() {
    while (at_ < text_.size()) {
      if (std::isspace(static_cast<unsigned char>(text_[at_]))) {
        ++at_;
      } else if (text_.substr(at_, 2) == "//") {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else {
        return;
      }
    }
  }

  static bool IsWordChar(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '/' ||
           c == '-' || c == '+';
  }

  bool Peek(std::string_view token) {
    SkipSpace();
    return text_.substr(at_, token.size()) == token;
  }
  bool PeekWord(std::string_view word) {
    return Peek(word) &&
           (at_ + word.size() >= text_.size() || !IsWordChar(text_[at_ + word.size()]));
  }
  bool Accept(std::string_view token) {
    if (!Peek(token)) return false;
    at_ += token.size();
    return true;
  }
  void Expect(std::string_view token) {
    if (Accept(token)) return;
    const std::string_view found = text_.substr(at_, 12);
    Die(StrCat("'", token, "' expected, found '", found.substr(0, found.find('\n')), "'"));
  }
  std::string Word() {
    SkipSpace();
    const size_t begin = at_;
    while (at_ < text_.size() && IsWordChar(text_[at_])) {
      if (text_[at_] == '-' && at_ + 1 < text_.size() && text_[at_ + 1] == '>') break;
      ++at_;
    }
    if (at_ == begin) Die("a name expected");
    return std::string(text_.substr(begin, at_ - begin));
  }

  int64_t ParseInt() {
    SkipSpace();
    int64_t v = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    if (error != std::errc()) Die("an integer expected");
    at_ = end - text_.data();
    return v;
  }

  Dims ParseDims() {
    Dims dims;
    Expect("[");
    while (!Accept("]")) {
      dims.push_back(ParseInt());
      if (!Peek("]")) Expect(",");
    }
    return dims;
  }

  Type ParseType() {
    const std::string name = Word();
    const auto dtype = ParseDType(name);
    if (!dtype) Die(StrCat("unknown dtype ", name));
    Type type{*dtype, ParseDims()};
    for (const int64_t d : type.shape) {
      if (d < 0) Die("negative dimension");
    }
    return type;
  }

  std::string ParseString() {
    Expect("\"");
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"') {
      char c = text_[at_++];
      if (c == '\\' && at_ < text_.size()) {
        c = text_[at_++];
        if (c == 'n') c = '\n';
      }
      out += c;
    }
    Expect("\"");
    return out;
  }

  Attr ParseAttr() {
    if (Peek("\"")) return ParseString();
    if (Peek("[")) return ParseDims();
    const std::string word = Word();
    if (word == "true") return true;
    if (word == "false") return false;
    if (word == "inf") return std::numeric_limits<double>::infinity();
    if (word == "-inf") return -std::numeric_limits<double>::infinity();
    if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (const auto dtype = ParseDType(word)) return *dtype;
    const char* end = word.data() + word.size();
    if (word.find_first_of(".e") == std::string::npos) {
      int64_t v = 0;
      const auto [stop, error] = std::from_chars(word.data(), end, v);
      if (error == std::errc() && stop == end) return v;
    } else {
      double v = 0;
      const auto [stop, error] = std::from_chars(word.data(), end, v);
      if (error == std::errc() && stop == end) return v;
    }
    Die(StrCat("attribute value expected, found '", word, "'"));
  }

  AttrMap ParseAttrs() {
    AttrMap attrs;
    Expect("{");
    while (!Accept("}")) {
      const std::string name = Word();
      Expect("=");
      if (!attrs.emplace(name, ParseAttr()).second) Die(StrCat("attribute ", name, " repeated"));
      if (!Peek("}")) Expect(",");
    }
    return attrs;
  }

  void Define(const std::string& name, Value value) {
    if (!values_.emplace(name, value).second) Die(StrCat('%', name, " is already defined"));
  }

  Value ParseUse() {
    Expect("%");
    const std::string name = Word();
    const auto it = values_.find(name);
    if (it == values_.end()) Die(StrCat('%', name, " is not defined"));
    return it->second;
  }

  void ParseParam() {
    const bool state = PeekWord("state") && Accept("state");
    Expect("%");
    const std::string name = Word();
    Expect(":");
    const Type type = ParseType();
    const AttrMap attrs = Peek("{") ? ParseAttrs() : AttrMap{};
    const Value v =
        state ? graph_->AddState(name, type, attrs) : graph_->AddInput(name, type, attrs);
    ParseFacts(v.node);
    Define(name, v);
  }

  void ParseFacts(Node* node) {
    if (!Accept("#")) return;
    for (auto& [key, value] : ParseAttrs()) {
      const Attr* known = fact::Example(key);
      if (known == nullptr) Die(StrCat("unknown fact ", key));
      if (known->index() != value.index()) {
        Die(StrCat("fact ", key, " has the wrong kind: ", FormatAttr(value), ", like ",
                   FormatAttr(*known), " expected"));
      }
      node->SetFact(key, value);
    }
  }

  void ParseNode() {
    std::vector<std::string> names;
    SkipSpace();
    const size_t names_at = at_;
    do {
      Expect("%");
      names.push_back(Word());
    } while (Accept(","));
    Expect("=");
    const std::string op = Word();
    Expect("(");
    std::vector<Value> operands;
    while (!Accept(")")) {
      operands.push_back(Accept("_") ? Value{} : ParseUse());
      if (!Peek(")")) Expect(",");
    }
    AttrMap attrs = Peek("{") ? ParseAttrs() : AttrMap{};
    Expect(":");
    const size_t types_at = at_;
    Types types;
    do types.push_back(ParseType());
    while (Accept(","));
    std::string scope;
    if (Accept("@")) scope = ParseString();
    Node* node = nullptr;
    try {
      node = graph_->AddNode(op, std::move(operands), std::move(attrs), scope);
    } catch (const Error& e) {
      at_ = types_at;
      Die(e.what());
    }
    ParseFacts(node);
    if (static_cast<int>(names.size()) != node->num_results() || types.size() != names.size()) {
      at_ = types_at;
      Die(StrCat(op, " has ", node->num_results(), " results"));
    }
    for (size_t i = 0; i < names.size(); ++i) {
      const int k = static_cast<int>(i);
      if (values_.contains(names[i])) at_ = names_at;
      if (types[i] != node->type(k)) {
        at_ = types_at;
        Die(StrCat(op, ": result ", i, " is ", node->type(k).ToString(), ", the text says ",
                   types[i].ToString()));
      }
      Define(names[i], node->result(k));
    }
  }

  void ParseReturn(const Types& types) {
    Expect("return");
    while (!Peek("}") && !PeekWord("next")) {
      std::string name;
      if (!Peek("%")) {
        name = Word();
        Expect("=");
      }
      graph_->AddOutput(name, ParseUse());
      if (!Accept(",")) break;
    }
    if (types.size() != graph_->outputs().size()) {
      Die(StrCat("the graph returns ", graph_->outputs().size(), " values, its signature says ",
                 types.size()));
    }
    for (size_t i = 0; i < types.size(); ++i) {
      if (types[i] != graph_->outputs()[i].value.type()) {
        Die(StrCat("output ", i, " is ", graph_->outputs()[i].value.type().ToString(),
                   ", the signature says ", types[i].ToString()));
      }
    }
  }

  void ParseNext() {
    Expect("next");
    const Value state = ParseUse();
    if (!state.node->Is("state")) Die("only a state has a next value");
    Expect("=");
    graph_->SetNextState(state, ParseUse());
  }

  std::string_view text_;
  const OpRegistry* ops_;
  size_t at_ = 0;
  std::unique_ptr<Graph> graph_;
  std::map<std::string, Value> values_;
};

}  // namespace

std::unique_ptr<Graph> ParseGraph(std::string_view text, const OpRegistry& ops) {
  return Parser(text, ops).Parse();
}

std::unique_ptr<Graph> ParseSample(const OpDef& def, std::string_view sample,
                                   const OpRegistry& ops) {
  const auto parts = Parser(sample, ops).ParseSampleParts();
  auto graph = std::make_unique<Graph>(def.name, ops);
  std::vector<Value> operands;
  for (size_t i = 0; i < parts.operands.size(); ++i) {
    const auto& [present, type] = parts.operands[i];
    if (!present) {
      operands.push_back({});
      continue;
    }
    const size_t k = def.operands.empty() ? 0 : std::min(i, def.operands.size() - 1);
    const bool variadic = !def.operands.empty() && def.operands[k].variadic;
    const std::string base = def.operands.empty() ? "x" : def.operands[k].name;
    operands.push_back(graph->AddInput(variadic ? StrCat(base, i) : base, type));
  }
  Node* node = graph->AddNode(def.name, std::move(operands), parts.attrs, "");
  for (int i = 0; i < node->num_results(); ++i) graph->AddOutput("", node->result(i));
  return graph;
}

}  // namespace stator
