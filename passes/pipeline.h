// The order of the passes; pipeline.cc is the table of contents of the compiler.
#pragma once

#include "passes/pass.h"

#include <string_view>
#include <vector>

namespace stator {

// The stages, in order. BuildTrainingGraphs (passes/training_programs.h) goes through the first
// three for every program of a bundle, and StatePasses follow when the bundle is whole; each
// program then goes through LowerPasses by itself.
std::vector<Pass> ModelPasses();      // simplify what was declared
std::vector<Pass> StepPasses();       // add what a training step computes
std::vector<Pass> PrecisionPasses();  // settle dtypes
std::vector<Pass> StatePasses();      // settle how states are kept
std::vector<Pass> LowerPasses();      // from composites to kernels and memory

// All of them: from a model to the planned `train` program of a single micro-batch.
std::vector<Pass> TrainPipeline();

// Every pass once, in the order of its first appearance.
const std::vector<Pass>& AllPasses();
// Throws `Error` for a name that no pass has.
const Pass& FindPass(std::string_view name);

}  // namespace stator
