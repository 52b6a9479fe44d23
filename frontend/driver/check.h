// `stator check`: the same updates on the same data and weights by two plans of one model, fused
// and unfused, and by the interpreter, value by value.
#pragma once

#include "frontend/driver/config.h"

#include <cstdint>
#include <cstdio>
#include <string>

namespace stator {

struct CheckOptions {
  int64_t steps = 3;  // updates to compare
  int64_t after = 0;  // updates to run before, without comparing
  // The interpreter is slow: "auto" asks it where an update takes it less than a minute or so.
  std::string reference = "auto";  // auto, yes, no
  FILE* out = stdout;
};

// Of every program that an update runs, then of "evaluate" once:
//   fused = unfused     every value that both plans store, states and outputs, to the bit
//   replayed = stepwise states and outputs, to the bit
//   interpreter         every value of the unfused plan from the operands that plan computed: to
//   the
//                       bit, or within ToleranceOf(node)
// Starts from the checkpoint with config.resume, from initializers otherwise. Stops at the first
// program that differs, says which node was the first and by how much, and returns false. Throws
// `Error`.
bool RunCheck(TrainConfig config, const CheckOptions& options);

}  // namespace stator
