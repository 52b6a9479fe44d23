// Attention through cuDNN's fused graphs.
#pragma once

#include "codegen/plan.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/resources.h"
#include "runtime/cuda/step.h"

#include <cstdint>
#include <memory>
#include <string>

namespace stator {

// Version and path of the cuDNN in use; a note when this build has none.
LibraryFact CudnnFact();

// One handle and the graphs built for it: equal problems share one.
class CudnnAttention {
 public:
  // For the current device. Built graphs are kept in the kernel cache at `cache_dir`, by problem,
  // device and library versions: reading one takes milliseconds, building one up to a second.
  CudnnAttention(const std::string& device_name, const std::string& cache_dir);
  ~CudnnAttention();

  // Whether cuDNN takes the problem, and the scratch it wants, by building its graph. The answer
  // holds for any batch_chunk whose entries number `query.batch`, and any head_chunk whose heads
  // number `query.kv_heads`.
  bool Supports(const AttentionQuery& query, std::string* why);
  int64_t Workspace(const AttentionQuery& query);  // 0 when not supported

  // Throws `Error` with `name` when cuDNN does not take the call, or wants more scratch than
  // call.workspace_bytes.
  CudaStepPtr Prepare(const AttentionCall& call, const SpaceMap& spaces, const std::string& name);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stator
