// From planned graphs to a Plan: emits kernels for regions, library calls for the rest.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codegen/plan.h"
#include "ir/graph.h"
#include "ir/target.h"

namespace stator {

struct ProgramGraph {
  std::string name;    // "train"
  const Graph* graph;  // has been through the pipeline: regions, views, order, offsets are facts
};

struct BuildOptions {
  std::string plan_name;
  bool deterministic = true;
};

// Every program's states must agree in type and attributes by name. Throws `Error` for a node that
// no implementation of the target takes, naming it.
Plan BuildPlan(const std::vector<ProgramGraph>& programs, const Target& target,
               const BuildOptions& options);

}  // namespace stator
