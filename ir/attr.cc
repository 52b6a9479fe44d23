#include "ir/attr.h"

#include "ir/base/error.h"

#include <algorithm>

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
    std::string operator()(Symbol v) const { return Quote(v); }
    std::string operator()(const Dims& v) const { return FormatDims(v); }
    std::string operator()(DType v) const { return std::string(Name(v)); }
  };
  return std::visit(Visitor{}, attr);
}

const Attr& AttrMap::at(std::string_view name) const {
  const auto it = find(name);
  STATOR_CHECK(it != end(), "no attribute ", name);
  return it->second;
}

std::pair<AttrMap::iterator, bool> AttrMap::emplace(Symbol name, Attr value) {
  const auto at = std::lower_bound(begin(), end(), name,
                                   [](const value_type& e, Symbol n) { return e.first < n; });
  if (at != end() && at->first == name) return {at, false};
  if (entries_.capacity() == 0) {  // most have two or more
    entries_.reserve(2);
    entries_.emplace_back(name, std::move(value));
    return {begin(), true};
  }
  return {entries_.insert(at, {name, std::move(value)}), true};
}

void AttrMap::insert_or_assign(Symbol name, Attr value) {
  if (const auto at = find(name.str()); at != end()) {
    at->second = std::move(value);
  } else {
    emplace(name, std::move(value));
  }
}

void AttrMap::erase(std::string_view name) {
  if (const auto at = find(name); at != end()) entries_.erase(at);
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
