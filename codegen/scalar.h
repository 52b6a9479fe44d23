// C text of types, literals and scalar expressions.
#pragma once

#include "ir/graph.h"

#include <string>
#include <vector>

namespace stator {

// "float", "long long", ...: what arithmetic on `dtype` is carried out in.
std::string ComputeCType(DType dtype);
// "st_bf16", "unsigned char", ...: how an element is stored.
std::string StorageCType(DType dtype);
// `v` as a literal of the compute type of `dtype`.
std::string Literal(double v, DType dtype);
// `text` (in the compute type of `from`) converted to `to` and rounded as op `cast` says.
std::string ConvertText(const std::string& text, DType from, DType to);
// The value of an elementwise node given its operands' C text, rounded to the result's dtype.
std::string ScalarText(const Node& node, const std::vector<std::string>& operands);
// Whether the expression is worth keeping rather than computing again.
bool IsExpensive(const Node& node);

}  // namespace stator
