// From a plan to steps that are ready to be enqueued: compiles and loads code, makes handles, sets
// scratch aside.
#pragma once

#include "codegen/plan.h"
#include "runtime/cuda/attention_cudnn.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/library.h"
#include "runtime/cuda/resources.h"
#include "runtime/cuda/step.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace stator {

class KernelCache;

struct StepBuilderOptions {
  int sm = 0;
  std::string device_name;
  std::string tuning_file;
  std::string cache_dir;
  MatMulOptions matmul;
  bool overlap = true;  // as in ExecutorOptions
};

// Owns what steps refer to; outlives them.
class StepBuilder {
 public:
  // Compiles what has no binary, in parallel, and loads all of it. Throws `Error`.
  StepBuilder(const Plan& plan, const StepBuilderOptions& options, KernelCache& cache);
  ~StepBuilder();

  // Scratch that the step needs and the plan has not set aside, bytes; shared by the steps of a
  // stream.
  int64_t OwnWorkspace(const PlanStep& step) const;

  CudaStepPtr Build(const Program& program, const PlanStep& step, const SpaceMap& spaces,
                    char* own_workspace);

  void SaveTuning();

 private:
  CublasLt& lt();
  CudnnAttention& cudnn();
  const CudaLibrary& SegmentLibrary(const SegmentSumCall& call, const std::string& name) const;

  const Plan& plan_;
  StepBuilderOptions options_;
  std::vector<CudaLibrary> modules_;
  // A few kernels stand in thousands of steps: each is looked up once, and each shape checked once.
  std::vector<CudaKernel> kernels_;  // by the plan's numbers; null until asked
  std::set<std::tuple<int64_t, int64_t, int64_t>> prepared_;  // kernel, threads, shared bytes
  std::optional<CudaLibrary> sort_, clear_;
  std::map<std::string, CudaLibrary> segment_, attention_;  // by source
  std::unique_ptr<CublasLt> lt_;
  std::unique_ptr<CudnnAttention> cudnn_;
};

}  // namespace stator
