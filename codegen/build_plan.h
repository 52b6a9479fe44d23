// From planned graphs to a Plan: emits kernels for regions, library calls for the rest.
#pragma once

#include "codegen/plan.h"
#include "ir/graph.h"
#include "ir/target.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace stator {

struct ProgramGraph {
  std::string name;    // "train"
  const Graph* graph;  // has been through the pipeline: regions, views, order, offsets are facts
};

// What a step writes, for looking at the values of a program while it runs.
struct StepValue {
  int step = 0;      // of its program
  Value value;       // of the program's graph; owns its storage
  BufferRef buffer;  // where it is when the step is done
};
using StepValues = std::map<std::string, std::vector<StepValue>>;  // by program, in order

struct BuildOptions {
  std::string plan_name;
  bool deterministic = true;
  bool merge = true;             // equal kernels on unrelated buffers become one call
  StepValues* values = nullptr;  // set: gets what every step writes
};

// Every program's states must agree in type and attributes by name. Throws `Error` for a node that
// no implementation of the target takes, naming it.
Plan BuildPlan(const std::vector<ProgramGraph>& programs, const Target& target,
               const BuildOptions& options);

}  // namespace stator
