// The byte budget: how much a program recomputes so that the plan fits.
#pragma once

#include "ir/graph.h"
#include "passes/pass.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace stator {

// What `graphs`, programs of one plan that are not lowered yet, need of a device besides their
// arena: their states, each once, their inputs and outputs, and what the target sets aside.
int64_t BytesBesidesArena(const std::vector<std::unique_ptr<Graph>>& graphs, const Target& target);

// Runs the lowering passes. With `budget` > 0 the arena is to be of at most `arena` bytes: the
// program is lowered as it is and then, from the start, with more and more bytes of activations
// recomputed, until it fits. Throws `Error` (kOutOfMemory) naming the budget, what is missing and
// the largest tensors alive at the peak. Returns the timings of the passes that made the result.
std::vector<PassTiming> LowerToFit(
    std::unique_ptr<Graph>& graph, const PassOptions& options, int64_t budget, int64_t arena,
    const std::function<void(const std::string& pass, const Graph&)>& on_dump = {});

}  // namespace stator
