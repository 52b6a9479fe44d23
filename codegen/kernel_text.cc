#include "codegen/kernel_text.h"

#include <cctype>

namespace stator {

std::string Indent(const std::string& text, int spaces) {
  std::string out;
  const std::string pad(spaces, ' ');
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const size_t stop = end == std::string::npos ? text.size() : end;
    if (stop > begin && text[begin] != '#') out += pad;
    out.append(text, begin, stop - begin);
    out += '\n';
    begin = stop + 1;
  }
  return out;
}

std::string If(const std::string& condition, const std::string& body) {
  return condition.empty() || body.empty()
             ? body
             : StrCat("if (", condition, ") {\n", Indent(body, 2), "}\n");
}

bool Mentions(const std::string& text, const std::string& name) {
  const auto is_word = [&](size_t i) {
    return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_');
  };
  for (size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += name.size()) {
    if ((at == 0 || !is_word(at - 1)) && !is_word(at + name.size())) return true;
  }
  return false;
}

std::vector<Definition> Definitions(const std::string& text) {
  std::vector<Definition> out;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    Definition d{text.substr(at, text.find('\n', at) + 1 - at), "", ""};
    const size_t equal = d.line.find(" = ");
    if (d.line.starts_with("const ") && equal != std::string::npos) {
      const size_t space = d.line.rfind(' ', equal - 1);
      d.type = d.line.substr(6, space - 6);
      d.name = d.line.substr(space + 1, equal - space - 1);
    }
    out.push_back(std::move(d));
  }
  return out;
}

std::string Needed(const std::string& text, const std::string& definitions) {
  const std::vector<Definition> all = Definitions(definitions);
  std::string needed;
  for (auto d = all.rbegin(); d != all.rend(); ++d) {
    if (d->name.empty() || Mentions(needed + text, d->name)) needed.insert(0, d->line);
  }
  return needed;
}

}  // namespace stator
