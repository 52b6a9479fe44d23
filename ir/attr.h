// Attributes: the compile-time arguments of an op, and the facts that passes leave on a node.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "ir/type.h"

namespace stator {

using Attr = std::variant<bool, int64_t, double, std::string, Dims, DType>;
using AttrMap = std::map<std::string, Attr, std::less<>>;

std::string FormatAttr(const Attr& attr);
// "{a=1, b=[2,3]}"; empty text for an empty map.
std::string FormatAttrs(const AttrMap& attrs);

}  // namespace stator
