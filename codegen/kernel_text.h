// Pieces of kernels' text: indentation, loops and conditions, and what a text defines and mentions.
#pragma once

#include "ir/base/str.h"

#include <string>
#include <vector>

namespace stator {

// `text` with every line indented by `spaces`.
std::string Indent(const std::string& text, int spaces);
// A loop of `var` from 0 to below `count` (CUDA).
template <typename Count>
std::string Unrolled(const char* var, const Count& count, const std::string& body) {
  return StrCat("#pragma unroll\nfor (int ", var, " = 0; ", var, " < ", count, "; ++", var, ") {\n",
                Indent(body, 2), "}\n");
}
// `body` where `condition` holds; always without one.
std::string If(const std::string& condition, const std::string& body);

// Whether the word `name` stands in `text`.
bool Mentions(const std::string& text, const std::string& name);

// A line of a text: "const TYPE NAME = ...;", where `name` is empty for any other.
struct Definition {
  std::string line, type, name;
};
std::vector<Definition> Definitions(const std::string& text);
// The lines of `definitions` that `text` needs, directly or by each other; those that define
// nothing are needed.
std::string Needed(const std::string& text, const std::string& definitions);

}  // namespace stator
