// Plans made by hand, one step each, for tests of the runtime.
#pragma once

#include "codegen/plan.h"
#include "ir/tensor.h"
#include "runtime/executor.h"

#include <map>
#include <string>
#include <vector>

namespace stator {

// Collects inputs, outputs and state in their spaces, aligned and apart.
class HandPlan {
 public:
  HandPlan();

  TensorRef Input(const std::string& name, const Type& type);
  TensorRef Output(const std::string& name, const Type& type);
  TensorRef State(const std::string& name, const Type& type);
  TensorRef Scratch(const Type& type);
  // A kernel of C++ source; `name` is defined in it.
  int Kernel(const std::string& name, const std::string& source);
  void Step(StepWork work, const std::string& name = "step");

  Program& program() { return plan_.programs[0]; }
  Plan& plan() { return plan_; }

 private:
  Plan plan_;
};

// Options with a cache of their own below the build folder.
ExecutorOptions TestOptions(int threads = 2);

// One run of program "run".
std::map<std::string, Tensor> RunOnce(Executor& executor,
                                      const std::map<std::string, Tensor>& inputs);
std::map<std::string, Tensor> RunOnce(const Plan& plan, const std::map<std::string, Tensor>& inputs,
                                      int threads = 2);

// Deterministic values in about [-2, 2]; small non-negative integers for integer dtypes.
Tensor RandomTensor(const Type& type, uint64_t seed);

// Fails the test where |a - b| > absolute + relative |b|; NaN and infinities must be the same.
void ExpectClose(const Tensor& actual, const Tensor& expected, double relative, double absolute,
                 const std::string& what);

}  // namespace stator
