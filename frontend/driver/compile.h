// The compiler as a user calls it: a declared model and an optimizer in, a plan out.
#pragma once

#include "codegen/build_plan.h"
#include "frontend/driver/device.h"
#include "ir/graph.h"
#include "ir/training.h"
#include "passes/pass.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace stator {

// A forward-only program beside training, by the name it gets in the plan: {"forward", logits}.
struct ForwardProgram {
  std::string name;
  const Graph* graph = nullptr;
};

struct CompileOptions {
  DType compute_dtype = DType::kF32;   // of matrix products; masters stay f32
  double loss_scale = 65536;           // where compute_dtype is f16: the first loss scale,
  int64_t loss_scale_interval = 2000;  // and updates until it doubles (0: never)
  int micro_batches = 1;
  bool fuse = true;
  bool fast = false;  // admits kernels that differ from run to run
  Numerics numerics = Numerics::kDefault;
  bool own_matmul = true;             // our own matrix products where they are faster
  std::vector<std::string> keep_f32;  // scope globs that stay f32 under mixed precision
  // Bytes that the process may take on the device; 0: as many as it wants. Programs recompute
  // activations until they fit.
  int64_t memory_budget = 0;
  // Declared without dropout, where the model says more about evaluation than dropout; null: the
  // model with its dropout off.
  const Graph* evaluate = nullptr;
  std::vector<ForwardProgram> forward;
  // Sees each program's text before its first pass and after every pass.
  std::function<void(const std::string& program, const std::string& pass, const Graph&)> on_dump;
  bool keep_graphs = false;  // for whoever looks at a program's values by node
};

struct ProgramTimings {
  std::string program;
  std::vector<PassTiming> passes;
};

struct CompiledModel {
  Plan plan;
  std::vector<ProgramTimings> timings;
  double pass_seconds = 0, build_seconds = 0;  // graphs and passes; emitting the plan
  // With keep_graphs: each program's graph as planned, named after it, and what its steps write.
  std::vector<std::unique_ptr<Graph>> graphs;
  StepValues values;
};

// Programs of the plan: "train", or "accumulate" and "update" with several micro-batches;
// "evaluate"; those of `options.forward`; "derive" where states are copies of others, as f16
// shadows are. Throws `Error` for a model that the target cannot run or that the budget cannot
// hold.
CompiledModel Compile(const Graph& model, const OptimizerSpec& optimizer, const Target& target,
                      const CompileOptions& options = {});

// Only the programs of `options.forward`, for sampling and evaluation without an optimizer.
CompiledModel CompileForward(const std::string& name, const Target& target,
                             const CompileOptions& options);

}  // namespace stator
