#include "frontend/driver/profile.h"

#include "frontend/driver/clock.h"
#include "frontend/driver/data.h"
#include "frontend/driver/file.h"
#include "frontend/driver/format.h"
#include "frontend/driver/models.h"
#include "frontend/driver/random_bits.h"
#include "frontend/driver/resolve.h"
#include "frontend/driver/start.h"
#include "frontend/driver/train.h"
#include "frontend/driver/trainer.h"
#include "ir/base/error.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <set>

namespace stator {
namespace {

double Median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  return v.size() % 2 == 1 ? v[v.size() / 2] : (v[v.size() / 2 - 1] + v[v.size() / 2]) / 2;
}

// Ids drawn evenly from the vocabulary, as many as anyone reads.
class RandomTokens : public Tokens {
 public:
  RandomTokens(uint64_t seed, int64_t vocabulary) : seed_(seed), vocabulary_(vocabulary) {}
  int64_t size() const override { return int64_t{1} << 40; }
  void Read(int64_t start, int64_t count, int32_t* out) const override {
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t bits =
          RandomBits(seed_, Purpose::kSampling, static_cast<uint64_t>(start + i), 0);
      out[i] = static_cast<int32_t>(bits % static_cast<uint64_t>(vocabulary_));
    }
  }

 private:
  uint64_t seed_;
  int64_t vocabulary_;
};

// What equal steps share.
std::string KernelOf(const Plan& plan, const PlanStep& step) {
  const auto* call = std::get_if<KernelCall>(&step.work);
  return call != nullptr ? plan.kernels[call->kernel].name : DescribeWork(plan, step);
}

DType DTypeOf(const PlanStep& step) {
  if (const auto* call = std::get_if<MatMulCall>(&step.work)) return call->a.type.dtype;
  if (const auto* call = std::get_if<KernelCall>(&step.work);
      call != nullptr && !call->maps.empty()) {
    return call->maps[0].tensor.type.dtype;  // a product of our own
  }
  if (const auto* call = std::get_if<AttentionCall>(&step.work)) return call->q.type.dtype;
  return DType::kF32;
}

class ProfileRun {
 public:
  ProfileRun(TrainConfig config, const ProfileOptions& options)
      : config_(std::move(config)), options_(options), device_(ChooseDevice(config_.device)) {}
  Profile Run(const std::string& variant);

 private:
  struct Launch {  // of a program in an update
    std::string program;
    int64_t batch;  // -1: it takes none
  };

  std::string DeviceText() const;
  void LoadData(Profile& profile);
  void Load(Profile& profile);
  void AddSteps(Profile& profile) const;
  void RunByClock(Profile& profile);
  void RunTimed(Profile& profile);

  TrainConfig config_;
  const ProfileOptions& options_;
  Device device_;
  std::unique_ptr<BatchSource> batches_;
  bool bytes_ = true;
  std::unique_ptr<Trainer> trainer_;
  std::vector<Launch> launches_;
  int64_t update_ = 0;
};

std::string ProfileRun::DeviceText() const {
  const std::string name = device_.target->name(), &target = trainer_->plan().target;
  if (device_.target->kind() == DeviceKind::kCuda) return StrCat(name, ", ", target);
  return StrCat(name, ", ", config_.threads > 0 ? config_.threads : omp_get_max_threads(),
                " threads");
}

void ProfileRun::LoadData(Profile& profile) {
  std::shared_ptr<const Tokens> tokens;
  if (config_.data.empty()) {
    const int64_t vocabulary = VocabularySize(config_, true);
    tokens = std::make_shared<RandomTokens>(static_cast<uint64_t>(config_.seed), vocabulary);
    profile.data = StrCat("random tokens of a vocabulary of ", vocabulary);
  } else {
    const Dataset data = LoadDataset(MakeDataOptions(config_));
    tokens = data.train;
    bytes_ = data.bytes;
    profile.data = data.description;
  }
  batches_ =
      std::make_unique<BatchSource>(tokens, config_.batch_size, config_.block_size, "training");
}

void ProfileRun::Load(Profile& profile) {
  PlannedModel planned = CompileTraining(config_, *device_.target, bytes_);
  ExecutorOptions options = MakeExecutorOptions(config_, device_);
  options.timed = true;
  trainer_ = std::make_unique<Trainer>(MakeExecutor(std::move(planned.compiled.plan), options));
  update_ = StartStates(trainer_->executor(), config_, bytes_);
  const bool accumulates = trainer_->plan().FindProgram("accumulate") != nullptr;
  for (int64_t i = 0; i < config_.gradient_accumulation_steps; ++i) {
    launches_.push_back({accumulates ? "accumulate" : "train", i});
  }
  if (accumulates) launches_.push_back({"update", -1});
  AddSteps(profile);
}

void ProfileRun::AddSteps(Profile& profile) const {
  const Plan& plan = trainer_->plan();
  for (size_t l = 0; l < launches_.size(); ++l) {
    const std::string& name = launches_[l].program;
    if (l > 0 && launches_[l - 1].program == name) continue;
    const auto runs = std::count_if(launches_.begin(), launches_.end(),
                                    [&](const Launch& other) { return other.program == name; });
    const std::vector<PlanStep>& steps = plan.FindProgram(name)->steps;
    for (size_t i = 0; i < steps.size(); ++i) {
      const std::string work = DescribeWork(plan, steps[i]);
      profile.steps.push_back({.program = name,
                               .index = static_cast<int>(i),
                               .runs = static_cast<int>(runs),
                               .name = steps[i].name,
                               .scope = steps[i].scope,
                               .kind = work.substr(0, work.find(' ')),
                               .kernel = KernelOf(plan, steps[i]),
                               .dtype = DTypeOf(steps[i]),
                               .bytes = steps[i].bytes,
                               .flops = steps[i].flops});
    }
  }
}

// Batches are drawn before the clock starts, and a few serve a long run: its time is the same.
void ProfileRun::RunByClock(Profile& profile) {
  constexpr int64_t kDrawn = 64;
  std::vector<std::vector<Batch>> batches;
  for (int64_t i = 0; i < std::min(kDrawn, options_.warmup + options_.steps); ++i) {
    batches.push_back(BatchesOf(*batches_, config_, update_++));
  }
  const int in_flight = device_.target->kind() == DeviceKind::kCuda ? 3 : 1;
  const auto run = [&](int64_t begin, int64_t end) {
    const double start = Now();
    for (int64_t i = begin; i < end; ++i) {
      trainer_->Enqueue(FeedsOf(batches[static_cast<size_t>(i) % batches.size()]));
      if (trainer_->in_flight() >= in_flight) trainer_->Take();
    }
    while (trainer_->in_flight() > 0) trainer_->Take();
    return Now() - start;
  };
  run(0, options_.warmup);
  profile.clock_seconds =
      run(options_.warmup, options_.warmup + options_.steps) / static_cast<double>(options_.steps);
}

void ProfileRun::RunTimed(Profile& profile) {
  std::vector<std::vector<double>> seconds(profile.steps.size());
  for (int64_t u = 0; u < options_.steps; ++u) {
    const std::vector<Batch> batches = BatchesOf(*batches_, config_, update_++);
    const std::vector<Feed> feeds = FeedsOf(batches);
    profile.timeline.clear();  // the last update's stays
    double begin = 0;
    size_t first = 0;  // step of the launched program
    for (size_t l = 0; l < launches_.size(); ++l) {
      const Launch& launch = launches_[l];
      if (l > 0 && launches_[l - 1].program != launch.program) {
        first += trainer_->plan().FindProgram(launches_[l - 1].program)->steps.size();
      }
      const TimedRun run = trainer_->executor().RunTimed(
          launch.program, launch.batch < 0 ? Feed() : feeds[static_cast<size_t>(launch.batch)]);
      profile.method = run.method;
      double end = begin;
      for (size_t i = 0; i < run.steps.size(); ++i) {
        const StepSpan& span = run.steps[i];
        seconds[first + i].push_back(span.seconds());
        profile.timeline.push_back(
            {static_cast<int>(first + i), begin + span.start, begin + span.end});
        end = std::max(end, begin + span.end);
      }
      begin = end;
    }
    profile.conditions = trainer_->executor().Conditions();
  }
  for (size_t i = 0; i < profile.steps.size(); ++i) profile.steps[i].seconds = Median(seconds[i]);
}

Profile ProfileRun::Run(const std::string& variant) {
  config_.fuse = variant == "fused";
  Profile profile;
  profile.variant = variant;
  profile.updates = options_.steps, profile.warmup = options_.warmup;
  profile.title = StrCat(config_.model, ", ", config_.n_layer, " layers of width ", config_.n_embd,
                         ", ", config_.batch_size, " x ", config_.block_size, " tokens, ",
                         Name(ComputeDType(config_, *device_.target)));
  LoadData(profile);
  Load(profile);
  profile.device = DeviceText();
  RunByClock(profile);
  RunTimed(profile);
  return profile;
}

void CheckCompare(const StringList& compare) {
  for (size_t i = 0; i < compare.size(); ++i) {
    const std::string& variant = compare[i];
    if (variant != "fused" && variant != "unfused") {
      Fail(ErrorCode::kInvalidArgument, "compare: '", variant, "' is neither fused nor unfused");
    }
    if (i > 0 && variant == compare[0]) {
      Fail(ErrorCode::kInvalidArgument, "compare: ", variant, " is named twice");
    }
  }
}

void CheckFiles(const ProfileOptions& o) {
  std::set<std::string> files;
  for (const std::string* file : {&o.json, &o.trace, &o.html}) {
    if (file->empty()) continue;
    CheckWritable(*file);
    if (!files.insert(*file).second) {
      Fail(ErrorCode::kInvalidArgument, "two of json, trace and html are to be written to ", *file);
    }
  }
}

void Validate(const ProfileOptions& o) {
  CheckCompare(o.compare);
  if (o.steps < 1) Fail(ErrorCode::kInvalidArgument, "steps: ", o.steps, " leaves nothing to time");
  if (o.warmup < 0) Fail(ErrorCode::kInvalidArgument, "warmup: ", o.warmup, " is negative");
  for (const int64_t updates : {o.steps, o.warmup}) {
    if (updates <= kMostProfiledUpdates) continue;
    Fail(ErrorCode::kInvalidArgument, updates == o.steps ? "steps: " : "warmup: ", updates,
         " is more than ", kMostProfiledUpdates);
  }
  CheckFiles(o);
}

}  // namespace

Profile MeasureProfile(const TrainConfig& config, const std::string& variant,
                       const Ceilings& ceilings, const ProfileOptions& options) {
  Profile profile = ProfileRun(config, options).Run(variant);
  profile.ceilings = ceilings;
  return profile;
}

void RunProfile(TrainConfig config, const ProfileOptions& options) {
  ValidateConfig(config);
  Validate(options);
  const Device device = ChooseDevice(config.device);
  ExecutorOptions executor = MakeExecutorOptions(config, device);
  executor.timed = true;
  // Before the model is loaded, so that both need not fit the device together.
  const Ceilings ceilings = MeasureCeilings(device, executor, ComputeDType(config, *device.target));
  StringList variants = options.compare;
  if (variants.empty()) variants = {config.fuse ? "fused" : "unfused"};
  std::vector<Profile> profiles;
  for (const std::string& variant : variants) {
    profiles.push_back(MeasureProfile(config, variant, ceilings, options));
  }
  const Profile first = std::move(profiles.front());
  profiles.erase(profiles.begin());
  std::fputs(ProfileText(first, profiles).c_str(), options.out);
  const auto write = [&](const std::string& path, const std::string& text) {
    WriteFileAtomically(path, text);
    std::fprintf(options.out, "written to %s\n", path.c_str());
  };
  if (!options.json.empty()) write(options.json, ProfileJson(first, profiles));
  if (!options.trace.empty()) write(options.trace, ProfileTrace(first));
  if (!options.html.empty()) write(options.html, ProfileHtml(first, profiles));
  std::fflush(options.out);
}

}  // namespace stator
