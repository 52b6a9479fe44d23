#include "frontend/driver/probe.h"

#include "frontend/driver/data.h"
#include "frontend/driver/file.h"
#include "frontend/driver/format.h"
#include "frontend/driver/npy.h"
#include "frontend/driver/start.h"
#include "frontend/driver/train.h"
#include "frontend/driver/trainer.h"
#include "frontend/driver/values.h"
#include "ir/base/error.h"

#include <algorithm>

namespace stator {
namespace {

constexpr int64_t kShown = 8;  // elements

void Print(FILE* out, const NamedValue& v, const Tensor& tensor) {
  std::string line = StrCat(v.name, " ", tensor.type.ToString(), " of ", v.program, "\n ");
  for (const auto& [name, value] : ComputeFigures(tensor, FigureNames())) {
    line += Format(" %s %.6g", name.c_str(), value);
  }
  line += "\n  [";
  for (int64_t i = 0; i < std::min(kShown, tensor.size()); ++i) {
    line += Format(i == 0 ? "%.6g" : ", %.6g", tensor.Get(i));
  }
  line += tensor.size() > kShown
              ? Format(", ... %lld more]", static_cast<long long>(tensor.size() - kShown))
              : "]";
  std::fprintf(out, "%s\n", line.c_str());
}

}  // namespace

void RunProbe(TrainConfig config, const ProbeOptions& options) {
  ValidateConfig(config);
  if (options.after < 0)
    Fail(ErrorCode::kInvalidArgument, "after: ", options.after, " is negative");
  if (!options.output.empty()) CheckWritable(options.output);
  const Device device = ChooseDevice(config.device);
  const Dataset data = LoadDataset(MakeDataOptions(config));
  const BatchSource batches(data.train, config.batch_size, config.block_size, "training");
  CompiledModel compiled =
      CompileTraining(config, *device.target, data.bytes, {}, /*keep_graphs=*/true).compiled;
  const std::vector<NamedValue> found =
      FindValues(NameValues(compiled.values), options.tensor, "probe");
  if (!options.output.empty() && found.size() > 1) {
    Fail(ErrorCode::kInvalidArgument, "probe: '", options.tensor, "' matches ", found.size(),
         " values, and one is to be written to ", options.output, "; the first two are ",
         found[0].name, " and ", found[1].name);
  }
  Trainer trainer(MakeExecutor(std::move(compiled.plan), MakeExecutorOptions(config, device)));
  int64_t update = StartStates(trainer.executor(), config, data.bytes);
  const auto step = [&](auto run) {
    const std::vector<Batch> drawn = BatchesOf(batches, config, update++);
    return run(FeedsOf(drawn));
  };
  for (int64_t i = 0; i < options.after; ++i) {
    step([&](const std::vector<Feed>& feeds) { return trainer.Step(feeds); });
  }
  const auto visit = [&](const std::string& program, int run, int index, Executor& executor) {
    if (run > 0) return;
    for (const NamedValue& v : found) {
      if (v.at.step != index || v.program != program) continue;
      const Type type = v.type();
      const std::vector<char> bytes = v.Read(executor);
      Print(options.out, v, Tensor::FromBytes(type, bytes.data()));
      if (options.output.empty()) continue;
      WriteNpy(options.output, type, bytes);
      std::fprintf(options.out, "written to %s\n", options.output.c_str());
    }
  };
  const Metrics metrics =
      step([&](const std::vector<Feed>& feeds) { return trainer.StepObserved(feeds, visit); });
  std::fprintf(options.out, "in update %lld, whose loss is %.6f\n", static_cast<long long>(update),
               metrics.loss);
  std::fflush(options.out);
}

}  // namespace stator
