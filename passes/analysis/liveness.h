// When each materialized value is alive, in steps: one step is one region, which becomes one or a
// few kernels. Also what the planned arena holds at its peak, for messages.
#pragma once

#include "ir/graph.h"

#include <cstdint>
#include <string>
#include <vector>

namespace stator {

struct RegionStep {
  int region = 0;
  std::vector<Node*> nodes;  // in graph order
  int stream = 0;
  int done = 0;  // the first step of stream 0 that surely runs after its end, or itself
};

struct LiveRange {
  Value value;
  int first = 0, last = 0;  // steps; both included
  bool to_end = false;      // an output or next state: read by the copies after the last step
};

struct Liveness {
  std::vector<RegionStep> steps;
  std::vector<int> step_of_node;  // by id; -1 where there is none
  std::vector<LiveRange> values;  // materialized ones, in graph order

  // The step of a node, -1 for views, inputs, states and inline constants.
  int StepOf(const Node& node) const;
};

// Throws `Error` when a node has no region or a region's nodes are apart: `fuse-regions` and
// `order-nodes` come before.
Liveness AnalyzeLiveness(const Graph& graph);

// Bytes of the arena as planned (facts space and offset).
int64_t ArenaBytes(const Graph& graph);

struct PeakValue {
  std::string name;   // "matmul f32[8,1024]"
  std::string scope;  // "h.3/mlp/up"
  int64_t bytes = 0;
};
// What is alive in the arena at the step where most is, largest first.
std::vector<PeakValue> AliveAtPeak(const Graph& graph);

struct ArenaUse {
  int64_t arena_bytes = 0;
  int64_t max_live_bytes = 0;  // no plan of the same order can be smaller
};
ArenaUse MeasureArena(const Graph& graph);

}  // namespace stator
