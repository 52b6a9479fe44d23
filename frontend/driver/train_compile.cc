// The compiler's part of a run: from a configuration to a plan.
#include "frontend/driver/models.h"
#include "frontend/driver/resolve.h"
#include "frontend/driver/train.h"
#include "ir/base/error.h"

#include <algorithm>
#include <set>
#include <string>

namespace stator {
namespace {

CompileOptions MakeCompileOptions(const TrainConfig& config, const Target& target) {
  CompileOptions options;
  options.compute_dtype = ComputeDType(config, target);
  options.micro_batches = static_cast<int>(config.gradient_accumulation_steps);
  options.loss_scale = config.loss_scale;
  options.loss_scale_interval = config.loss_scale_interval;
  options.keep_f32 = config.keep_f32;
  options.fuse = config.fuse;
  options.fast = config.fast;
  options.own_matmul = config.own_matmul;
  options.memory_budget = MemoryBudget(config);
  if (options.memory_budget == 0 && target.kind() == DeviceKind::kCuda) {
    options.memory_budget = target.memory_bytes();
  }
  options.numerics = config.numerics == "strict" ? Numerics::kStrict : Numerics::kDefault;
  return options;
}

void CheckKeptScopes(const TrainConfig& config, const Graph& model) {
  std::set<std::string> scopes;
  for (const Node* n = model.first(); n != nullptr; n = n->next()) {
    if (!n->scope().empty()) scopes.insert(n->scope());
  }
  for (const std::string& glob : config.keep_f32) {
    if (std::any_of(scopes.begin(), scopes.end(),
                    [&](const std::string& scope) { return GlobMatch(glob, scope); })) {
      continue;
    }
    Fail(ErrorCode::kInvalidArgument, "keep_f32: no scope of ", config.model, " matches '", glob,
         "'", NearNames(glob, {scopes.begin(), scopes.end()}));
  }
}

}  // namespace

PlannedModel CompileTraining(const TrainConfig& config, const Target& target, bool bytes,
                             const PlanDump& dump, bool keep_graphs) {
  const int64_t vocab_size = VocabularySize(config, bytes);
  const auto model = LossModel(config, vocab_size, dsl::Mode::kTrain);
  const auto evaluate = LossModel(config, vocab_size, dsl::Mode::kEvaluate);
  const auto forward = ForwardModel(config, vocab_size);
  CheckKeptScopes(config, model->graph());
  const OptimizerSpec optimizer = MakeOptimizer(config)(model->graph());
  CompileOptions options = MakeCompileOptions(config, target);
  options.on_dump = dump;
  options.keep_graphs = keep_graphs;
  options.evaluate = &evaluate->graph();
  options.forward = {{"forward", &forward->graph()}};
  return {Compile(model->graph(), optimizer, target, options), model->NumParameters()};
}

PlannedModel CompileSampling(const TrainConfig& config, const Target& target, bool bytes) {
  const auto forward = ForwardModel(config, VocabularySize(config, bytes));
  CompileOptions options = MakeCompileOptions(config, target);
  options.forward = {{"forward", &forward->graph()}};
  return {CompileForward(config.model, target, options), forward->NumParameters()};
}

ExecutorOptions MakeExecutorOptions(const TrainConfig& config, const Device& device) {
  ExecutorOptions options;
  options.mode = config.mode == "eager" ? ExecutionMode::kEager : ExecutionMode::kGraph;
  options.threads = static_cast<int>(config.threads);
  options.device = device.ordinal;
  options.cache_dir = config.compile_cache;
  options.fast = config.fast;
  return options;
}

}  // namespace stator
