// A node of class attention as the question that a Target answers.
#pragma once

#include "ir/graph.h"
#include "ir/target.h"
#include "passes/pass.h"

namespace stator {

// For `attention` and `attention_grad`, whose operands start with q [B,T,H,D] and k [B,S,G,D].
AttentionQuery QueryOf(const Node& node, const PassOptions& options);

}  // namespace stator
