#include "frontend/driver/trainer.h"

#include "frontend/driver/checkpoint.h"
#include "ir/base/error.h"
#include "ir/training.h"
#include "passes/analysis/loss_scaling.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace stator {
namespace {

float ReadFloat(const OutputMap& outputs, std::string_view name) {
  const auto it = outputs.find(std::string(name));
  float v = 0;
  if (it != outputs.end() && it->second.size() == sizeof v) {
    std::memcpy(&v, it->second.data(), sizeof v);
  }
  return v;
}

Metrics ReadMetrics(const OutputMap& outputs) {
  Metrics m;
  m.loss = ReadFloat(outputs, training::kLoss);
  m.weight = ReadFloat(outputs, training::kWeight);
  m.grad_norm = ReadFloat(outputs, training::kGradNorm);
  m.learning_rate = ReadFloat(outputs, training::kLearningRate);
  m.loss_scale = ReadFloat(outputs, training::kLossScale);
  const auto finite = outputs.find(std::string(training::kFinite));
  m.finite = finite == outputs.end() || finite->second.empty() || finite->second[0] != 0;
  return m;
}

std::unique_ptr<Executor> CompileAndLoad(dsl::Model& model, const dsl::Optimizer& optimizer,
                                         const TrainerOptions& options) {
  const Device device = ChooseDevice(options.device);
  const OptimizerSpec spec = optimizer(model.graph());
  CompiledModel compiled = Compile(model.graph(), spec, *device.target, options.compile);
  ExecutorOptions executor_options = options.executor;
  executor_options.device = device.ordinal;
  executor_options.fast = options.compile.fast;
  auto executor = MakeExecutor(std::move(compiled.plan), executor_options);
  InitializeStates(*executor, options.seed);
  return executor;
}

}  // namespace

Trainer::Trainer(dsl::Model& model, const dsl::Optimizer& optimizer, const TrainerOptions& options)
    : Trainer(CompileAndLoad(model, optimizer, options)) {}

Trainer::Trainer(std::unique_ptr<Executor> executor) : executor_(std::move(executor)) {
  accumulates_ = plan().FindProgram("accumulate") != nullptr;
}

Metrics Trainer::Step(const std::vector<Feed>& micro_batches) {
  STATOR_CHECK(updates_.empty(), in_flight(), " updates are in flight; Take() their metrics first");
  Enqueue(micro_batches);
  return Take();
}

void Trainer::CheckFeeds(const std::vector<Feed>& micro_batches) const {
  if (!accumulates_ && micro_batches.size() != 1) {
    Fail(ErrorCode::kInvalidArgument, "the plan takes one micro-batch an update, got ",
         micro_batches.size());
  }
  if (micro_batches.empty()) Fail(ErrorCode::kInvalidArgument, "an update without micro-batches");
}

void Trainer::Set(const std::string& setting, double value) {
  std::vector<std::string> names;
  for (const StateEntry& s : plan().states) {
    if (s.role == training::kSettingRole || s.name == training::kLossScale) names.push_back(s.name);
  }
  if (std::find(names.begin(), names.end(), setting) == names.end()) {
    Fail(ErrorCode::kInvalidArgument, "no setting is named '", setting, "'; there ",
         names.empty() ? "are none: the optimizer is not adjustable"
                       : StrCat("are ", Join(names, ", ")));
  }
  if (setting == training::kLossScale) CheckLossScale(value);
  const bool above_zero = setting == training::kClipNorm;
  if (!std::isfinite(static_cast<float>(value)) || value < 0 || (above_zero && value == 0)) {
    Fail(ErrorCode::kInvalidArgument, setting, " must be finite and ",
         above_zero ? "above 0" : "not negative", ", got ", value);
  }
  const auto word = static_cast<float>(value);
  executor_->WriteState(setting, Bytes(reinterpret_cast<const char*>(&word), sizeof word));
}

Metrics Trainer::StepObserved(const std::vector<Feed>& micro_batches, const StepObserver& visit) {
  STATOR_CHECK(runs_.empty(), "updates are in flight; Take() their metrics before observing one");
  CheckFeeds(micro_batches);
  const auto run = [&](const std::string& program, int index, const Feed& feed) {
    executor_->RunStepwise(program, feed, [&](int step, Executor& executor) {
      visit(program, index, step, executor);
    });
  };
  const std::string main = accumulates_ ? "accumulate" : "train";
  for (size_t i = 0; i < micro_batches.size(); ++i)
    run(main, static_cast<int>(i), micro_batches[i]);
  if (accumulates_) run("update", 0, {});
  OutputMap outputs;
  for (const PlanOutput& o : plan().FindProgram(accumulates_ ? "update" : "train")->outputs) {
    outputs[o.name] = executor_->ReadBuffer(o.buffer, o.type.Bytes());
  }
  return ReadMetrics(outputs);
}

void Trainer::Enqueue(const std::vector<Feed>& micro_batches) {
  CheckFeeds(micro_batches);
  if (!accumulates_) {
    Launch("train", micro_batches[0], true);
    return;
  }
  for (const Feed& feed : micro_batches) Launch("accumulate", feed, false);
  Launch("update", {}, true);
}

void Trainer::Launch(const std::string& program, const Feed& feed, bool last) {
  // A ticket lives for kMaxInFlight further runs.
  if (static_cast<int>(runs_.size()) >= Executor::kMaxInFlight) WaitOldest();
  runs_.push_back({executor_->Enqueue(program, feed), last});
  if (last) updates_.emplace_back();
}

void Trainer::WaitOldest() {
  const Run run = runs_.front();
  runs_.pop_front();
  const OutputMap outputs = executor_->Wait(run.ticket);
  if (run.last) updates_[done_++] = ReadMetrics(outputs);
}

Metrics Trainer::Take() {
  STATOR_CHECK(!updates_.empty(), "no update is in flight");
  while (done_ == 0) WaitOldest();
  const Metrics metrics = updates_.front();
  updates_.pop_front();
  --done_;
  return metrics;
}

Metrics Trainer::Evaluate(const Feed& feed) {
  STATOR_CHECK(runs_.empty(), "updates are in flight; Take() their metrics before evaluating");
  return ReadMetrics(executor_->Wait(executor_->Enqueue("evaluate", feed)));
}

}  // namespace stator
