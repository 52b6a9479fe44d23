// The text form: `ParseGraph(PrintGraph(g))` is `g`.
//
//   graph @step(%x: f32[4,8], state %w: f32[8,2] {trainable=true}) -> (f32[4,2]) {
//     %0 = matmul(%x, %w) : f32[4,2] @"mlp/up" #{region=1}
//     return y=%0
//     next %w = %1
//   }
//
// Absent optional operands print as `_`, attributes equal to their defaults are left out.
#pragma once

#include "ir/graph.h"

#include <memory>
#include <string>
#include <string_view>

namespace stator {

std::string PrintGraph(const Graph& graph);
// One node's line, for messages.
std::string PrintNode(const Node& node);

// Throws `Error` (kParse) with line and column.
std::unique_ptr<Graph> ParseGraph(std::string_view text, const OpRegistry& ops = DefaultOps());

// "(f32[4,8], _, i32[4]) {axis=1}" as in OpDef::samples: a graph of that one op on inputs named
// after its operands, every float result an output.
std::unique_ptr<Graph> ParseSample(const OpDef& def, std::string_view sample,
                                   const OpRegistry& ops = DefaultOps());

}  // namespace stator
