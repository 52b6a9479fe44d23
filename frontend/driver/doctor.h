// What this machine has, what it lacks, and what will not work together: `stator doctor`.
#pragma once

#include "codegen/plan.h"

#include <string>
#include <vector>

namespace stator {

enum class Verdict {
  kOk,
  kAbsent,   // something that is of use and not there
  kProblem,  // something that keeps Stator from working, or from working on the GPU that is there
};

struct Finding {
  Verdict verdict = Verdict::kOk;
  std::string name;  // "compiler", "cuDNN"
  std::string text;
};

std::vector<Finding> ExamineMachine();
// Whether `plan` can run here: device, architecture, library versions it was made with.
std::vector<Finding> ExaminePlan(const Plan& plan);

// Prints to stdout, a line each. True when nothing is a problem.
bool PrintFindings(const std::vector<Finding>& findings);

}  // namespace stator
