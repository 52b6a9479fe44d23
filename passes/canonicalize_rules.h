// The rewrites of `canonicalize`, as a table.
#pragma once

#include "ir/builder.h"

#include <string>
#include <vector>

namespace stator {

struct Rule {
  std::string name;  // what it matches and gives
  // The value that takes the place of the node's only result, or null. The builder inserts before
  // the node, in its scope and with its facts.
  Value (*apply)(Builder& b, const Node& n);
};

const std::vector<Rule>& AlgebraRules();  // arithmetic, select, casts
const std::vector<Rule>&
ArrangementRules();  // movement, reductions over nothing, transposed matmuls

}  // namespace stator
