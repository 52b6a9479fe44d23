// Attributes: the compile-time arguments of an op, and the facts that passes leave on a node.
#pragma once

#include "ir/base/symbol.h"
#include "ir/type.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace stator {

using Attr = std::variant<bool, int64_t, double, Symbol, Dims, DType>;

// A few attributes in the order of their names. The interface is std::map's; every node has two, so
// they lie in one piece of memory.
class AttrMap {
 public:
  using value_type = std::pair<Symbol, Attr>;
  using iterator = std::vector<value_type>::iterator;
  using const_iterator = std::vector<value_type>::const_iterator;

  AttrMap() = default;
  AttrMap(std::initializer_list<value_type> entries) {
    for (const value_type& e : entries) emplace(e.first, e.second);
  }

  iterator begin() { return entries_.begin(); }
  iterator end() { return entries_.end(); }
  const_iterator begin() const { return entries_.begin(); }
  const_iterator end() const { return entries_.end(); }
  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }

  const_iterator find(std::string_view name) const {
    const_iterator at = begin();
    while (at != end() && at->first.str() != name) ++at;
    return at;
  }
  iterator find(std::string_view name) {
    return begin() + (std::as_const(*this).find(name) - std::as_const(*this).begin());
  }
  bool contains(std::string_view name) const { return find(name) != end(); }
  const Attr& at(std::string_view name) const;  // the attribute must be there
  Attr& operator[](std::string_view name) { return emplace(name, Attr()).first->second; }
  // Keeps what is there.
  std::pair<iterator, bool> emplace(Symbol name, Attr value);
  void insert_or_assign(Symbol name, Attr value);
  void erase(const_iterator at) { entries_.erase(at); }
  void erase(std::string_view name);

  bool operator==(const AttrMap&) const = default;

 private:
  std::vector<value_type> entries_;
};

std::string FormatAttr(const Attr& attr);
// "{a=1, b=[2,3]}"; empty text for an empty map.
std::string FormatAttrs(const AttrMap& attrs);

}  // namespace stator
