#include "frontend/driver/train.h"

#include "frontend/driver/checkpoint.h"
#include "frontend/driver/clock.h"
#include "frontend/driver/data.h"
#include "frontend/driver/file.h"
#include "frontend/driver/interrupt.h"
#include "frontend/driver/models.h"
#include "frontend/driver/report.h"
#include "frontend/driver/resolve.h"
#include "frontend/driver/sample.h"
#include "frontend/driver/start.h"
#include "frontend/driver/trainer.h"
#include "ir/base/error.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

namespace stator {
namespace {

// Updates in a row without a finite gradient or loss; a falling loss scale takes some.
constexpr int kSkippedToEnd = 100;  // as many end a run
constexpr int kSkippedToKeep = 10;  // as many leave the checkpoint before in place

class TrainingRun {
 public:
  TrainingRun(TrainConfig config, const WatchOptions& watch)
      : config_(std::move(config)), watch_options_(watch) {}
  TrainResult Run();

 private:
  void PrintHeader(const PlannedModel& planned, double load_seconds);
  void Loop();
  bool Stops() const { return InterruptScope::Pending() != 0 || report_->failed() != 0; }
  // What `read` takes from the data. Where that fails the run ends, and what was trained is saved.
  template <typename Read>
  auto FromData(Read read);
  void SaveAfterError();
  std::vector<Batch> NextBatches();
  void EnqueueUpdate();
  void TakeUpdate();
  void WatchUpdate();
  void Reported(const Metrics& metrics);
  void CheckFinite(const Metrics& metrics, int64_t step);
  void Evaluate(bool last);
  void Save();
  void PrintSample();
  std::string MetricsPath() const { return StrCat(config_.out_dir, "/", kMetricsFile); }

  TrainConfig config_;
  Device device_;
  Dataset data_;
  BigramEntropy bigram_;
  std::unique_ptr<BatchSource> train_, val_;
  std::unique_ptr<Trainer> trainer_;
  const WatchOptions watch_options_;
  std::unique_ptr<Watch> watch_;  // null: nothing is watched
  std::unique_ptr<Report> report_;
  TrainResult result_;
  int in_flight_ = 1;     // updates enqueued before the first one's metrics are read
  int64_t saved_ = 0;     // updates that the last checkpoint has seen
  int64_t reported_ = 0;  // updates whose metrics were read
  double last_end_ = 0;   // when the update before was done, seconds
  int skipped_ = 0;       // updates in a row
};

TrainResult TrainingRun::Run() {
  ValidateConfig(config_);
  // Checkpoints in a checkpoint would be found by nobody, and removed with it.
  if (IsCheckpoint(config_.out_dir)) {
    Fail(ErrorCode::kInvalidArgument, "out_dir: ", config_.out_dir, " is itself a checkpoint; to ",
         "go on from it, --resume with the folder that holds it, or begin a run in another ",
         "out_dir with --init_from ", config_.out_dir, "/model.safetensors");
  }
  if (config_.resume) {
    WithCheckpoint(config_.out_dir, ReadCheckpointInfo);  // damage is told at once
  }
  device_ = ChooseDevice(config_.device);
  // A GPU works while the host prepares the next batch; on a CPU that would be the same cores.
  in_flight_ = device_.target->kind() == DeviceKind::kCuda ? 3 : 1;
  config_.dtype = Name(ComputeDType(config_, *device_.target));  // the checkpoint says what it was
  data_ = LoadDataset(MakeDataOptions(config_));
  train_ = std::make_unique<BatchSource>(data_.train, config_.batch_size, config_.block_size,
                                         "training");
  val_ = std::make_unique<BatchSource>(data_.val, config_.batch_size, config_.block_size,
                                       "validation");
  if (data_.bytes) bigram_ = ByteBigramEntropy(*data_.train, *data_.val);
  result_.bigram = bigram_.val;

  const bool watches = !watch_options_.patterns.empty();
  PlannedModel planned =
      CompileTraining(config_, *device_.target, data_.bytes, {}, /*keep_graphs=*/watches);
  if (watches) watch_ = std::make_unique<Watch>(planned.compiled, watch_options_);
  const Plan plan = std::move(planned.compiled.plan);
  CreateDirectories(config_.out_dir);
  const DirectoryLock lock(config_.out_dir);
  // What is there now stays until this run replaces it.
  const std::string checkpoint = FindCheckpoint(config_.out_dir);
  // The metrics of an earlier run stay as long as its checkpoint, which one may yet resume.
  const bool replaces = !config_.resume && !checkpoint.empty();
  const double start = Now();
  trainer_ = std::make_unique<Trainer>(MakeExecutor(plan, MakeExecutorOptions(config_, device_)));
  const double loaded = Now();
  const int64_t first = StartStates(trainer_->executor(), config_, data_.bytes);
  const double filled = Now();
  result_.iteration = reported_ = saved_ = first;
  const std::string new_metrics = MetricsPath() + ".new";
  unlink(new_metrics.c_str());  // of a run that was killed before it saved
  report_ = std::make_unique<Report>(Report::Options{
      .max_iters = config_.max_iters,
      .log_interval = config_.log_interval,
      .flops_per_token = FlopsPerToken(config_, planned.parameters),
      .peak_flops = device_.target->peak_flops(ComputeDType(config_, *device_.target)),
      .metrics_path = replaces ? new_metrics : MetricsPath(),
      .first_step = first});

  PrintHeader(planned, loaded - start);
  report_->Header("states", Format("filled in %.2f s", filled - loaded));
  if (config_.resume) {
    report_->Header("resumed", StrCat(checkpoint, ", after ", result_.iteration, " updates"));
    if (result_.iteration >= config_.max_iters) {
      report_->Header("note",
                      StrCat("the run was finished after ", result_.iteration,
                             " updates: nothing is trained; ", "more --max_iters go on from it"));
    }
  } else {
    if (!config_.init_from.empty()) report_->Header("weights", config_.init_from);
    if (replaces) {
      report_->Header("note",
                      StrCat(checkpoint, " is of an earlier run; this run's first checkpoint ",
                             "replaces it (--resume would go on from it); till then this run's ",
                             "metrics are in ", new_metrics));
    }
  }
  if (watch_ != nullptr && watch_->Next(result_.iteration) > config_.max_iters) {
    report_->Header("note", StrCat("nothing is watched: the first look would be after update ",
                                   watch_->Next(result_.iteration), ", --every says how often"));
  }
  const InterruptScope interrupts;
  if (report_->failed() == 0) Loop();
  result_.signal = InterruptScope::Pending();
  if (report_->failed() != 0 && result_.signal == 0) {
    Fail(ErrorCode::kIo, "cannot write to the standard output: ", std::strerror(report_->failed()),
         saved_ > first ? StrCat("; ", saved_, " updates are saved in ", config_.out_dir)
                        : "; nothing was saved");
  }
  return result_;
}

void TrainingRun::PrintHeader(const PlannedModel& planned, double load_seconds) {
  const TrainConfig& c = config_;
  const Target& target = *device_.target;
  const Plan& plan = trainer_->plan();
  report_->Header(
      "model", StrCat(c.model, ", ", c.n_layer, " layers, ", c.n_head, " heads, width ", c.n_embd,
                      ", block ", c.block_size, ", ", FormatCount(planned.parameters),
                      " parameters, ", Name(ComputeDType(c, target))));
  report_->Header("data", StrCat(data_.description, "; ", FormatCount(data_.train->size()),
                                 " to train, ", FormatCount(data_.val->size()), " to validate"));
  const int64_t threads = c.threads ? c.threads : omp_get_max_threads();
  const std::string cores =
      target.kind() == DeviceKind::kCpu ? StrCat(", ", threads, " threads") : "";
  report_->Header(
      "training",
      Format("%s, learning rate %.3g (%s, %lld updates of warm-up), %lld updates of %lld "
             "tokens",
             c.optimizer.c_str(), c.learning_rate, c.schedule.c_str(),
             static_cast<long long>(c.warmup_iters), static_cast<long long>(c.max_iters),
             static_cast<long long>(c.gradient_accumulation_steps * c.batch_size * c.block_size)));
  report_->Header("device", StrCat(target.name(), cores, device_.why.empty() ? "" : " (",
                                   device_.why, device_.why.empty() ? "" : ")"));
  const MemoryReport memory = trainer_->executor().memory();
  report_->Header("memory",
                  StrCat(FormatBytes(memory.state), " of states, ", FormatBytes(memory.arena),
                         " of scratch, ", FormatBytes(memory.io), " of inputs and outputs, ",
                         memory.libraries >= 0
                             ? FormatBytes(memory.libraries) + " in libraries"
                             : "libraries not measured: another process freed memory meanwhile"));
  size_t steps = 0;
  for (const Program& p : plan.programs) steps += p.steps.size();
  report_->Header(
      "compiled",
      StrCat(Format("%.2f s: %.2f s in passes, %.2f s emitting, %.2f s loading; ",
                    planned.compiled.pass_seconds + planned.compiled.build_seconds + load_seconds,
                    planned.compiled.pass_seconds, planned.compiled.build_seconds, load_seconds),
             plan.programs.size(), " programs of ", steps, " steps, ", plan.kernels.size(),
             " kernels"));
  for (const std::string& note : plan.notes) report_->Header("note", note);
  for (const std::string& note : c.notes) report_->Header("note", note);
  if (target.peak_flops(ComputeDType(c, target)) > 0) {
    report_->Header("MFU", Format("by PaLM's formula: %.4g flops a token (6N + 12 L H Q T) of %.4g "
                                  "flops a second",
                                  FlopsPerToken(c, planned.parameters),
                                  target.peak_flops(ComputeDType(c, target))));
  }
  if (data_.bytes) {
    report_->Header("bigram",
                    Format("byte-bigram entropy %.4f nats/byte: the validation text by the "
                           "training text's counts (by its own: %.4f)",
                           bigram_.val, bigram_.val_own));
  }
}

void TrainingRun::Loop() {
  last_end_ = Now();
  while (result_.iteration < config_.max_iters && !Stops()) {
    if (watch_ != nullptr && watch_->Wants(result_.iteration + 1)) {
      while (trainer_->in_flight() > 0) TakeUpdate();
      WatchUpdate();
    } else {
      EnqueueUpdate();
      if (trainer_->in_flight() >= in_flight_) TakeUpdate();
    }
    const bool evaluates =
        config_.eval_interval > 0 && result_.iteration % config_.eval_interval == 0;
    const bool saves =
        config_.checkpoint_interval > 0 && result_.iteration % config_.checkpoint_interval == 0;
    if (!evaluates && !saves) continue;
    while (trainer_->in_flight() > 0) TakeUpdate();
    if (evaluates && result_.iteration < config_.max_iters) Evaluate(false);
    if (saves && result_.iteration < config_.max_iters) Save();
    last_end_ = Now();
  }
  while (trainer_->in_flight() > 0) TakeUpdate();
  if (!Stops()) Evaluate(true);
  const bool stops = Stops();
  if (stops) {
    report_->Line(
        StrCat("interrupted after ", result_.iteration, " updates; once more ends at once"));
  }
  Save();
  if (stops) return;
  if (!std::isfinite(result_.val_loss)) {
    Fail(ErrorCode::kInvalidArgument, "the run ended with a validation loss of ", result_.val_loss,
         "; a lower learning_rate than ", config_.learning_rate, " or more warmup_iters may help");
  }
  PrintSample();
}

template <typename Read>
auto TrainingRun::FromData(Read read) {
  try {
    return read();
  } catch (const Error&) {
    SaveAfterError();
    throw;
  }
}

// The error that there is already is the one to tell.
void TrainingRun::SaveAfterError() {
  try {
    while (trainer_->in_flight() > 0) TakeUpdate();
    if (result_.iteration > saved_) Save();
  } catch (const std::exception& e) {
    report_->Line(StrCat("not saved after ", result_.iteration, " updates: ", e.what()));
  }
}

std::vector<Batch> TrainingRun::NextBatches() {
  return FromData([&] { return BatchesOf(*train_, config_, result_.iteration); });
}

void TrainingRun::EnqueueUpdate() {
  const std::vector<Batch> batches = NextBatches();
  ++result_.iteration;
  trainer_->Enqueue(FeedsOf(batches));
}

void TrainingRun::TakeUpdate() { Reported(trainer_->Take()); }

void TrainingRun::WatchUpdate() {
  const std::vector<Batch> batches = NextBatches();
  ++result_.iteration;
  std::vector<WatchedFigures> watched;
  Reported(watch_->Step(*trainer_, FeedsOf(batches), &watched));
  for (const WatchedFigures& w : watched) report_->Watched(reported_, w);
  last_end_ = Now();
}

void TrainingRun::Reported(const Metrics& metrics) {
  const double now = Now();
  const int64_t tokens =
      config_.batch_size * config_.block_size * config_.gradient_accumulation_steps;
  report_->Step(
      {.step = ++reported_, .metrics = metrics, .seconds = now - last_end_, .tokens = tokens});
  last_end_ = now;
  CheckFinite(metrics, reported_);
}

void TrainingRun::CheckFinite(const Metrics& metrics, int64_t step) {
  if (metrics.finite && std::isfinite(metrics.loss)) {
    skipped_ = 0;
    return;
  }
  report_->Line(metrics.finite ? Format("step %lld: the loss is %g", static_cast<long long>(step),
                                        metrics.loss)
                               : Format("step %lld: the gradient norm is %g; nothing was updated",
                                        static_cast<long long>(step), metrics.grad_norm));
  if (++skipped_ < kSkippedToEnd) return;
  Fail(ErrorCode::kInvalidArgument, "no finite gradient in ", skipped_, " updates up to step ",
       step, "; a lower learning_rate than ", config_.learning_rate,
       " or more warmup_iters may help");
}

// The last evaluation covers the validation split once, where that takes no more than eight times
// as long as the others.
void TrainingRun::Evaluate(bool last) {
  const int64_t tokens = config_.batch_size * config_.block_size;
  const int64_t whole = (data_.val->size() + tokens - 1) / tokens;
  const int64_t count = last ? std::max(config_.eval_iters, std::min(whole, 8 * config_.eval_iters))
                             : config_.eval_iters;
  double sum = 0, weight = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (Stops()) return;  // the mean of some batches is another figure
    const Batch batch = FromData([&] { return val_->Even(i, count); });
    const Metrics m = trainer_->Evaluate(FeedOf(batch));
    sum += static_cast<double>(m.loss) * m.weight;
    weight += m.weight;
  }
  result_.val_loss = weight > 0 ? sum / weight : NAN;
  report_->Evaluation(result_.iteration, result_.val_loss, result_.bigram);
}

void TrainingRun::Save() {
  // Such states are as before those updates, or what made them fail.
  const int64_t updates = result_.iteration - saved_;
  if (skipped_ > 0 && skipped_ >= std::min<int64_t>(updates, kSkippedToKeep)) {
    report_->Line(StrCat("no checkpoint after ", result_.iteration, " updates: the last ", skipped_,
                         " had no finite gradient or loss; what ", config_.out_dir, " has stays"));
    return;
  }
  const CheckpointInfo info{.iteration = result_.iteration,
                            .config = ConfigText(config_),
                            .versions = trainer_->plan().fingerprint};
  report_->Line("checkpoint " + SaveCheckpoint(trainer_->executor(), info, config_.out_dir));
  saved_ = result_.iteration;
  report_->RenameMetrics(MetricsPath());
}

void TrainingRun::PrintSample() {
  if (config_.sample_tokens == 0) return;
  if (!data_.bytes) {
    report_->Line("no sample: token ids have no tokenizer here that would make them text");
    return;
  }
  report_->Line("sample:\n" +
                SampleText(trainer_->executor(), config_, [this] { return !Stops(); }));
}

}  // namespace

DataOptions MakeDataOptions(const TrainConfig& c) {
  return {.files = c.data,
          .val_files = c.val_data,
          .val_fraction = c.val_fraction,
          .width = c.data_dtype == "uint32" ? TokenWidth::kU32 : TokenWidth::kU16,
          .vocab_size = c.vocab_size > 0 ? c.vocab_size : kAnyId};
}

TrainResult RunTraining(TrainConfig config, const WatchOptions& watch) {
  return TrainingRun(std::move(config), watch).Run();
}

}  // namespace stator
