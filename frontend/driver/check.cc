#include "frontend/driver/check.h"

#include "frontend/driver/check_programs.h"
#include "frontend/driver/data.h"
#include "frontend/driver/report.h"
#include "frontend/driver/resolve.h"
#include "frontend/driver/start.h"
#include "frontend/driver/train.h"
#include "frontend/driver/trainer.h"
#include "ir/base/error.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

namespace stator {
namespace {

class Check {
 public:
  Check(TrainConfig config, const CheckOptions& options)
      : config_(std::move(config)), options_(options) {}
  bool Run();

 private:
  CheckedPlan Load(bool fuse);
  bool Update(int64_t iteration);
  bool Compare(const std::string& program, const Feed& feed, const std::string& title);
  void Describe();

  TrainConfig config_;
  const CheckOptions options_;
  Device device_;
  Dataset data_;
  std::unique_ptr<BatchSource> train_, val_;
  std::unique_ptr<ProgramCheck> programs_;
};

CheckedPlan Check::Load(bool fuse) {
  TrainConfig config = config_;
  config.fuse = fuse;
  PlannedModel planned =
      CompileTraining(config, *device_.target, data_.bytes, {}, /*keep_graphs=*/true);
  CompiledModel& compiled = planned.compiled;
  CheckedPlan side;
  side.executor = MakeExecutor(std::move(compiled.plan), MakeExecutorOptions(config, device_));
  for (auto& graph : compiled.graphs) {
    const std::string name = graph->name();
    side.graphs[name] = std::move(graph);
  }
  side.values = std::move(compiled.values);
  return side;
}

bool Check::Run() {
  ValidateConfig(config_);
  device_ = ChooseDevice(config_.device);
  data_ = LoadDataset(MakeDataOptions(config_));
  train_ = std::make_unique<BatchSource>(data_.train, config_.batch_size, config_.block_size,
                                         "training");
  val_ = std::make_unique<BatchSource>(data_.val, config_.batch_size, config_.block_size,
                                       "validation");
  programs_ = std::make_unique<ProgramCheck>(Load(true), Load(false), options_.reference);
  Executor& fused = programs_->fused();
  int64_t done = StartStates(fused, config_, data_.bytes);
  Describe();
  for (int64_t end = done + options_.after; done < end; ++done) {
    const bool accumulates = fused.plan().FindProgram("accumulate") != nullptr;
    for (const Batch& batch : BatchesOf(*train_, config_, done)) {
      fused.Wait(fused.Enqueue(accumulates ? "accumulate" : "train", FeedOf(batch)));
    }
    if (accumulates) fused.Wait(fused.Enqueue("update", {}));
  }
  for (const int64_t end = done + options_.steps; done < end; ++done) {
    if (!Update(done)) return false;
  }
  const Batch batch = val_->Even(0, 1);
  return Compare("evaluate", FeedOf(batch), "evaluate");
}

void Check::Describe() {
  const Plan& plan = programs_->fused().plan();
  std::fprintf(
      options_.out, "check: %s, %lld layers of width %lld, %s on %s; %lld updates after %lld\n",
      config_.model.c_str(), static_cast<long long>(config_.n_layer),
      static_cast<long long>(config_.n_embd),
      std::string(Name(ComputeDType(config_, *device_.target))).c_str(), plan.target.c_str(),
      static_cast<long long>(options_.steps), static_cast<long long>(options_.after));
}

bool Check::Update(int64_t iteration) {
  const std::string title = StrCat("step ", iteration + 1);
  const bool accumulates = programs_->fused().plan().FindProgram("accumulate") != nullptr;
  for (int64_t i = 0; i < config_.gradient_accumulation_steps; ++i) {
    const Batch batch = train_->Random(static_cast<uint64_t>(config_.seed), iteration, i);
    const std::string program = accumulates ? "accumulate" : "train";
    if (!Compare(program, FeedOf(batch),
                 accumulates ? StrCat(title, ", micro-batch ", i + 1) : title)) {
      return false;
    }
  }
  return !accumulates || Compare("update", {}, StrCat(title, ", update"));
}

bool Check::Compare(const std::string& program, const Feed& feed, const std::string& title) {
  const ProgramFindings found = programs_->Run(program, feed);
  std::string line = title;
  for (const auto& [name, value] : found.scalars) line += Format("  %s %.6g", name.c_str(), value);
  std::fprintf(options_.out, "%s\n", line.c_str());
  for (const std::string& text : found.lines) std::fprintf(options_.out, "  %s\n", text.c_str());
  std::fflush(options_.out);
  return found.agree;
}

}  // namespace

bool RunCheck(TrainConfig config, const CheckOptions& options) {
  return Check(std::move(config), options).Run();
}

}  // namespace stator
