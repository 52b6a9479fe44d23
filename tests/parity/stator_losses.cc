// stator_losses WEIGHTS BATCHES [key=value...]: trains from given weights on given batches, and
// prints what every step gave. The other half is a PyTorch script (gpt2.py, llama.py) that writes
// both files.
//   WEIGHTS   safetensors, every parameter by its name
//   BATCHES   int32 [steps, gradient_accumulation_steps, batch_size, block_size + 1], nothing else;
//             the last token of a row is only a target
//   key=value as in `stator train`
// Prints one line of JSON: losses and gradient norms a step, with all digits of an f32.
#include "frontend/driver/checkpoint.h"
#include "frontend/driver/file.h"
#include "frontend/driver/json.h"
#include "frontend/driver/safetensors.h"
#include "frontend/driver/train.h"
#include "frontend/driver/trainer.h"
#include "ir/base/error.h"

#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>

namespace stator {
namespace {

// Writes every parameter; both sides must have the same names and types.
void LoadParameters(Executor& executor, const std::string& path) {
  const SafetensorsFile file(path);
  size_t found = 0;
  for (const StateEntry& s : executor.plan().states) {
    if (s.role != "parameter") continue;
    const TensorInfo* tensor = file.Find(s.name);
    if (!tensor || tensor->type != s.type) {
      Fail(ErrorCode::kInvalidArgument, "parameter '", s.name, "' ", s.type.ToString(), " is ",
           tensor ? tensor->type.ToString() : "absent", " in ", path);
    }
    executor.WriteState(s.name, file.Read(*tensor));
    ++found;
  }
  if (found != file.tensors().size()) {
    Fail(ErrorCode::kInvalidArgument, path, " holds ", file.tensors().size(),
         " tensors, the model ", found, " parameters");
  }
  RebuildDerivedStates(executor);
}

std::vector<int32_t> ReadTokens(const std::string& path) {
  const InputFile file(path);
  std::vector<int32_t> tokens(static_cast<size_t>(file.size()) / sizeof(int32_t));
  file.Read(0, std::span(reinterpret_cast<char*>(tokens.data()), tokens.size() * sizeof(int32_t)));
  return tokens;
}

// One micro-batch: rows of block_size + 1 tokens.
struct MicroBatch {
  std::vector<int32_t> tokens, targets;
};

MicroBatch Split(const int32_t* rows, const TrainConfig& config) {
  MicroBatch batch;
  for (int64_t row = 0; row < config.batch_size; ++row) {
    const int32_t* first = rows + row * (config.block_size + 1);
    batch.tokens.insert(batch.tokens.end(), first, first + config.block_size);
    batch.targets.insert(batch.targets.end(), first + 1, first + config.block_size + 1);
  }
  return batch;
}

// The shortest decimal that reads back as the same f32.
std::string Digits(float v) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, v).ptr);
}

int Run(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: stator_losses WEIGHTS BATCHES [key=value...]\n");
    return 2;
  }
  TrainConfig config;
  SetConfigWords(config, std::span(argv, argc).subspan(3));
  ValidateConfig(config);
  const Device device = ChooseDevice(config.device);
  Plan plan = CompileTraining(config, *device.target, /*bytes=*/false).compiled.plan;
  Trainer trainer(MakeExecutor(std::move(plan), MakeExecutorOptions(config, device)));
  InitializeStates(trainer.executor(), static_cast<uint64_t>(config.seed));
  LoadParameters(trainer.executor(), argv[1]);

  const std::vector<int32_t> tokens = ReadTokens(argv[2]);
  const int64_t micro = config.batch_size * (config.block_size + 1);
  const int64_t update = micro * config.gradient_accumulation_steps;
  const int64_t count = static_cast<int64_t>(tokens.size()) / update;
  if (count == 0 || count * update != static_cast<int64_t>(tokens.size())) {
    Fail(ErrorCode::kInvalidArgument, argv[2], " holds ", tokens.size(),
         " tokens, no whole number of updates of ", update);
  }
  std::string losses, norms;
  for (int64_t step = 0; step < count; ++step) {
    std::vector<MicroBatch> batches;
    std::vector<Feed> feeds;
    for (int64_t i = 0; i < config.gradient_accumulation_steps; ++i) {
      batches.push_back(Split(tokens.data() + step * update + i * micro, config));
    }
    for (const MicroBatch& b : batches) {
      feeds.push_back({{"tokens", AsBytes(b.tokens)}, {"targets", AsBytes(b.targets)}});
    }
    const Metrics metrics = trainer.Step(feeds);
    if (!metrics.finite)
      Fail(ErrorCode::kInvalidArgument, "step ", step, ": the gradient is not finite");
    losses += StrCat(step ? ", " : "", Digits(metrics.loss));
    norms += StrCat(step ? ", " : "", Digits(metrics.grad_norm));
  }
  std::printf("{\"device\": %s, \"losses\": [%s], \"grad_norms\": [%s]}\n",
              PrintJson(Json(device.target->name())).c_str(), losses.c_str(), norms.c_str());
  return 0;
}

}  // namespace
}  // namespace stator

int main(int argc, char** argv) {
  try {
    return stator::Run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "stator_losses: %s\n", e.what());
    return 1;
  }
}
