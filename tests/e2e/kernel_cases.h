// Every op's samples and their gradients, and odd graphs, as programs of one plan: what the
// generated kernels are tested on.
#pragma once

#include "codegen/plan.h"
#include "ir/graph.h"
#include "ir/target.h"
#include "ir/tensor.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace stator {

struct KernelCase {
  std::string name;                          // "softmax (f32[4,8])"
  std::unique_ptr<Graph> graph;              // as declared
  std::unique_ptr<Graph> forward = nullptr;  // of a gradient: says what its operands may hold
  bool exact = false;                        // kernels must agree with the interpreter to the bit
  double tolerance = 0;                      // otherwise, relative to the largest element
};

// `op_filter` is a glob over op names. Cases whose dtypes have no kernels are left out.
std::vector<KernelCase> KernelCases(const std::string& op_filter = "*");
// The same ops' gradients.
std::vector<KernelCase> GradientCases(const std::string& op_filter = "*");
// Of odd_graphs.h.
std::vector<KernelCase> OddCases();

// One program a case, named by its position.
Plan PlanOfCases(const std::vector<KernelCase>& cases, const Target& target, bool fuse);

// Runs every case through `executor_of_plan` on random inputs and compares with the interpreter.
// Returns one line a failure.
std::vector<std::string> RunCases(const std::vector<KernelCase>& cases, Plan plan, bool specials);

}  // namespace stator
