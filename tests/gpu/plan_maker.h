// Hand-built CUDA plans: buffers laid out one after the other, steps in order.
#pragma once

#include "codegen/plan.h"
#include "ir/base/error.h"
#include "runtime/executor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace stator::gpu_test {

// Skips the test, saying why, where there is no usable GPU.
#define STATOR_NEEDS_GPU()                                       \
  do {                                                           \
    std::string why;                                             \
    if (!HasCudaDevice(&why)) GTEST_SKIP() << "no GPU: " << why; \
  } while (false)

// Host values as bytes of a dtype and back.
std::vector<char> ToBytes(DType dtype, const std::vector<double>& values);
std::vector<double> FromBytes(DType dtype, const std::vector<char>& bytes);
// Uniform in [-1, 1), rounded to `dtype`; the same for the same seed.
std::vector<double> Random(DType dtype, int64_t n, uint64_t seed);
std::vector<double> RandomInts(int64_t n, int64_t below, uint64_t seed);

class PlanMaker {
 public:
  explicit PlanMaker(std::string name);

  BufferRef Take(Space space, int64_t bytes);
  TensorRef Tensor(Space space, DType dtype, const Dims& shape);
  // An input of the current program, and what every run feeds it.
  TensorRef Input(const std::string& name, DType dtype, const Dims& shape,
                  const std::vector<double>& values);
  TensorRef Output(const std::string& name, DType dtype, const Dims& shape);
  TensorRef State(const std::string& name, DType dtype, const Dims& shape);

  void NewProgram(const std::string& name);
  // Adds a module of one source; kernels of it by name.
  int Kernel(const std::string& source, const std::string& name);
  PlanStep& Step(StepWork work, const std::string& name = "step");

  Plan Finish() const;
  std::map<std::string, Bytes> Feeds() const;  // valid while this lives
  // Runs the program called "main" once in `mode`; outputs by name.
  OutputMap Run(ExecutionMode mode = ExecutionMode::kGraph) const;

  Plan plan;

 private:
  Program& program() { return plan.programs.back(); }
  std::map<std::string, std::vector<char>> feeds_;
};

// Executors compile into a cache of the test's own.
ExecutorOptions Options(ExecutionMode mode = ExecutionMode::kGraph);

// `t` from `at` elements on, with other shape and strides: a view of its buffer.
TensorRef ViewOf(const TensorRef& t, int64_t at, const Dims& shape, const Dims& strides);

double RelativeError(const std::vector<double>& got, const std::vector<double>& want);

}  // namespace stator::gpu_test
