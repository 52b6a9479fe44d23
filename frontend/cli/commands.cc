#include "frontend/cli/commands.h"

#include "frontend/driver/check.h"
#include "frontend/driver/checkpoint.h"
#include "frontend/driver/doctor.h"
#include "frontend/driver/file.h"
#include "frontend/driver/probe.h"
#include "frontend/driver/profile.h"
#include "frontend/driver/report.h"
#include "frontend/driver/sample.h"
#include "frontend/driver/train.h"
#include "ir/base/error.h"
#include "ir/base/parallel.h"
#include "ir/text.h"

#include <cstdio>
#include <map>
#include <optional>

namespace stator {
namespace {

// The configuration that the command line asks for. From here on what the host does beside the
// plan's steps keeps to --threads as well.
TrainConfig ResolveAndLimitThreads(const CommandLine& line) {
  TrainConfig config =
      line.command == "sample" ? ResolveForCheckpoint(line.config) : ResolveConfig(line.config);
  LimitThreads(static_cast<size_t>(config.threads));
  return config;
}

// The configuration with everything decided that depends on the device.
TrainConfig Configure(TrainConfig config, const Target& target) {
  const std::string chosen = ApplyDeviceDefaults(config, target);
  if (!chosen.empty()) config.notes.push_back(chosen);
  ValidateConfig(config);
  return config;
}

TrainConfig Configure(const CommandLine& line) {
  const TrainConfig config = ResolveAndLimitThreads(line);
  return Configure(config, *ChooseDevice(config.device).target);
}

int Train(const CommandLine& line) {
  const TrainResult result = RunTraining(Configure(line), line.watch);
  return result.signal == 0 ? 0 : 128 + result.signal;
}

bool TrainsOnBytes(const TrainConfig& config) {
  return config.data.empty() || !config.data[0].ends_with(".bin");
}

// dump/train/00-input.ir, dump/train/01-canonicalize.ir, ...
class Dump {
 public:
  explicit Dump(std::string folder) : folder_(std::move(folder)) {}
  void operator()(const std::string& program, const std::string& pass, const Graph& graph) {
    const std::string folder = StrCat(folder_, "/", program);
    CreateDirectories(folder);
    OutputFile file(StrCat(folder, "/", Format("%02d-", counts_[program]++), pass, ".ir"));
    file.WriteText(PrintGraph(graph));
    file.Close();
  }

 private:
  std::string folder_;
  std::map<std::string, int> counts_;
};

int ShowPlan(const CommandLine& line) {
  if (!line.load.empty()) {
    std::fputs(DescribePlan(LoadPlan(line.load), line.steps).c_str(), stdout);
    return 0;
  }
  TrainConfig config = ResolveAndLimitThreads(line);
  const Device device = line.gpu.empty() ? ChooseDevice(config.device) : RecordedDevice(line.gpu);
  config = Configure(std::move(config), *device.target);
  for (const std::string& note : config.notes) std::printf("%s\n", note.c_str());
  PlanDump dump;
  if (!line.dump.empty()) dump = Dump(line.dump);
  PlannedModel planned = CompileTraining(config, *device.target, TrainsOnBytes(config), dump);
  Plan& plan = planned.compiled.plan;
  std::printf("%s: %s parameters; compiled in %.2f s for %s%s\n", plan.name.c_str(),
              FormatCount(planned.parameters).c_str(),
              planned.compiled.pass_seconds + planned.compiled.build_seconds,
              device.target->name().c_str(),
              device.why.empty() ? "" : (" (" + device.why + ")").c_str());
  std::fputs(DescribePlan(plan, line.steps).c_str(), stdout);
  if (line.output.empty()) return 0;
  if (device.live) CompilePlan(plan, MakeExecutorOptions(config, device));
  SavePlan(plan, line.output);
  std::printf("written to %s%s\n", line.output.c_str(),
              device.live ? "" : "; kernels are compiled where it runs");
  return 0;
}

int ShowProfile(const CommandLine& line) {
  RunProfile(Configure(line), line.profile);
  return 0;
}

// What the file has already is kept: several models' choices make one table.
int Tune(const CommandLine& line) {
  TrainConfig config = ResolveAndLimitThreads(line);
  const Device device = ChooseDevice(config.device);
  if (device.target->kind() != DeviceKind::kCuda) {
    Fail(ErrorCode::kEnvironment, "tune: there is no GPU to time algorithms on",
         device.why.empty() ? "" : ": ", device.why);
  }
  config = Configure(std::move(config), *device.target);
  PlannedModel planned = CompileTraining(config, *device.target, TrainsOnBytes(config));
  ExecutorOptions options = MakeExecutorOptions(config, device);
  options.tuning = Tuning::kRecord;
  options.tuning_file = line.output;
  (void)MakeExecutor(std::move(planned.compiled.plan), options);
  std::printf("written to %s\n", line.output.c_str());
  return 0;
}

int ShowSample(const CommandLine& line) {
  TrainConfig config = ResolveAndLimitThreads(line);
  if (!TrainsOnBytes(config)) {
    Fail(ErrorCode::kUnsupported, "sample: the model was trained on token ids, and there is no ",
         "tokenizer to turn them into text");
  }
  const Device device = ChooseDevice(config.device);
  PlannedModel planned = CompileSampling(config, *device.target, true);
  const auto executor =
      MakeExecutor(std::move(planned.compiled.plan), MakeExecutorOptions(config, device));
  WithCheckpoint(config.out_dir, [&](const std::string& directory) {
    RestoreCheckpoint(*executor, directory, Restore::kParameters);
  });
  std::printf("%s\n", SampleText(*executor, config).c_str());
  return 0;
}

int Doctor(const CommandLine& line) {
  // A file that is no plan is said before anything is called fine.
  std::optional<Plan> plan;
  if (!line.plan_file.empty()) plan = LoadPlan(line.plan_file);
  bool fine = PrintFindings(ExamineMachine());
  if (plan) {
    std::printf("plan %s\n", line.plan_file.c_str());
    fine = PrintFindings(ExaminePlan(*plan)) && fine;
  }
  std::printf("%s\n", fine ? "nothing stands in the way" : "what is marked !! will not work");
  return fine ? 0 : 1;
}

}  // namespace

int RunCommand(const CommandLine& line) {
  if (line.command == "train") return Train(line);
  if (line.command == "plan") return ShowPlan(line);
  if (line.command == "check") return RunCheck(Configure(line), line.check) ? 0 : 1;
  if (line.command == "profile") return ShowProfile(line);
  if (line.command == "probe") {
    RunProbe(Configure(line), line.probe);
    return 0;
  }
  if (line.command == "tune") return Tune(line);
  if (line.command == "sample") return ShowSample(line);
  STATOR_CHECK(line.command == "doctor", "no command is named ", line.command);
  return Doctor(line);
}

}  // namespace stator
