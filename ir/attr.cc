#include "ir/attr.h"

#include "ir/base/str.h"

namespace stator {
namespace {

std::string Quote(const std::string& s) {
  std::string out = "\"";
  for (const char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace

std::string FormatAttr(const Attr& attr) {
  struct Visitor {
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return FormatDouble(v); }
    std::string operator()(const std::string& v) const { return Quote(v); }
    std::string operator()(const Dims& v) const { return FormatDims(v); }
    std::string operator()(DType v) const { return std::string(Name(v)); }
  };
  return std::visit(Visitor{}, attr);
}

std::string FormatAttrs(const AttrMap& attrs) {
  if (attrs.empty()) return "";
  std::string out = "{";
  for (const auto& [name, value] : attrs) {
    if (out.size() > 1) out += ", ";
    out += StrCat(name, "=", FormatAttr(value));
  }
  return out + "}";
}

}  // namespace stator
