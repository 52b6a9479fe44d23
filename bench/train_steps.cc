// stator_train_steps [key=value...]: training steps on request, for comparisons that run programs
// side by side (compare_cpu.py, side_by_side.py). Keys as in `stator train`; vocab_size is 256
// unless given. Tokens are random: no data is read. Prints a line of JSON when the first step is
// done, then answers commands on stdin, a line each:
//   run N      updates, one after another: {"ms": [...], "cpu_ms": [...], "loss": x}, by the clock
//   and
//              in processor time of all threads
//   stream N   updates with the next one under way, as in `stator train`: {"ms": [...], "loss": x},
//              from the end of one to the end of the next
#include "frontend/driver/checkpoint.h"
#include "frontend/driver/train.h"
#include "frontend/driver/trainer.h"
#include "ir/base/error.h"

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <span>
#include <sstream>
#include <string>

namespace stator {
namespace {

double Ms(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}
double WallMs() { return Ms(CLOCK_MONOTONIC); }
// Of all threads. With one thread that is a step's time as if nobody else used the machine.
double CpuMs() { return Ms(CLOCK_PROCESS_CPUTIME_ID); }

std::vector<int32_t> RandomTokens(int64_t count, int64_t vocab_size) {
  std::vector<int32_t> tokens(count);
  uint64_t state = 1;
  for (int32_t& t : tokens) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    t = static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(vocab_size));
  }
  return tokens;
}

class Steps {
 public:
  explicit Steps(const TrainConfig& config)
      : device_(ChooseDevice(config.device)),
        trainer_(MakeExecutor(CompileTraining(config, *device_.target, false).compiled.plan,
                              MakeExecutorOptions(config, device_))),
        tokens_(RandomTokens(config.batch_size * config.block_size, config.vocab_size)),
        targets_(tokens_) {
    std::rotate(targets_.begin(), targets_.begin() + 1, targets_.end());
    InitializeStates(trainer_.executor(), static_cast<uint64_t>(config.seed));
  }

  void Run(int count) {
    std::string ms, cpu_ms;
    float loss = 0;
    for (int i = 0; i < count; ++i) {
      const double start = WallMs(), cpu_start = CpuMs();
      loss = trainer_.Step(feed()).loss;
      cpu_ms += StrCat(i ? ", " : "", CpuMs() - cpu_start);
      ms += StrCat(i ? ", " : "", WallMs() - start);
    }
    std::printf("{\"ms\": [%s], \"cpu_ms\": [%s], \"loss\": %.9g}\n", ms.c_str(), cpu_ms.c_str(),
                static_cast<double>(loss));
    std::fflush(stdout);
  }

  void Stream(int count) {
    std::string ms;
    float loss = 0;
    trainer_.Enqueue({feed()});
    double last = WallMs();
    for (int i = 0; i < count; ++i) {
      if (i + 1 < count) trainer_.Enqueue({feed()});
      loss = trainer_.Take().loss;
      const double now = WallMs();
      ms += StrCat(i ? ", " : "", now - last);
      last = now;
    }
    std::printf("{\"ms\": [%s], \"loss\": %.9g}\n", ms.c_str(), static_cast<double>(loss));
    std::fflush(stdout);
  }

  // Seconds from the start of the process to the end of the first step, and the memory, bytes.
  void First(double start_ms) {
    const float loss = trainer_.Step(feed()).loss;
    const MemoryReport memory = trainer_.executor().memory();
    std::printf("{\"first_step_s\": %.3f, \"loss0\": %.9g, \"state\": %lld, \"arena\": %lld}\n",
                (WallMs() - start_ms) / 1e3, static_cast<double>(loss),
                static_cast<long long>(memory.state), static_cast<long long>(memory.arena));
    std::fflush(stdout);
  }

 private:
  Feed feed() const { return {{"tokens", AsBytes(tokens_)}, {"targets", AsBytes(targets_)}}; }

  Device device_;
  Trainer trainer_;
  std::vector<int32_t> tokens_, targets_;
};

void Serve(int argc, char** argv) {
  const double start = WallMs();
  TrainConfig config;
  config.device = "cpu", config.dtype = "f32", config.vocab_size = 256;
  SetConfigWords(config, std::span(argv, argc).subspan(1));
  ValidateConfig(config);
  Steps steps(config);
  steps.First(start);
  for (std::string text; std::getline(std::cin, text);) {
    std::istringstream in(text);
    std::string command;
    int count = 0;
    in >> command >> count;
    if (count < 1 || (command != "run" && command != "stream")) {
      Fail(ErrorCode::kInvalidArgument, "expected 'run N' or 'stream N', got '", text, "'");
    }
    command == "run" ? steps.Run(count) : steps.Stream(count);
  }
}

}  // namespace
}  // namespace stator

int main(int argc, char** argv) {
  try {
    stator::Serve(argc, argv);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "stator_train_steps: %s\n", e.what());
    return 1;
  }
}
