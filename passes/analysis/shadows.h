// Shadows: low-precision copies of f32 parameters, kept as states `<parameter>.<dtype>` beside
// their masters so that no program casts them anew. A shadow is `derived`: it stays out of
// checkpoints, and whoever fills in a state table sets it to its master, rounded. Its other
// attributes are its master's. A bf16 shadow is one only until split-masters makes it a part of the
// master.
#pragma once

#include "ir/graph.h"

#include <string>
#include <string_view>

namespace stator {

bool IsShadow(const Node& state);
// "h.0/w" for "h.0/w.bf16".
std::string ShadowedName(std::string_view shadow);

// The shadow of state `parameter` in `dtype`, declared when the graph does not have it.
Value ShadowOf(Graph& graph, Value parameter, DType dtype);

// Makes each shadow's next value the cast of its master's next value, where the master has one.
void UpdateShadows(Graph& graph);

}  // namespace stator
