// stator_cpu_steps [key=value...]: training steps on request, for comparisons that interleave programs
// (compare_cpu.py), and a table of where a step's time goes. Keys as in `stator train`; vocab_size is
// 256 unless given. Tokens are random: no data is read. Commands on stdin, an answer a line on stdout:
//   run N       updates; answers {"ms": [...], "cpu_ms": [...], "loss": x}: by the clock, and of all
//               threads together
//   profile N   the steps of the plan one by one, N times, in processor time; answers a table on
//               stderr, {} on stdout
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include "frontend/driver/checkpoint.h"
#include "frontend/driver/train.h"
#include "frontend/driver/trainer.h"
#include "ir/base/error.h"

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

struct Line {
  std::string label;
  int calls = 0;
  double ms = 0, flops = 0, bytes = 0;
};

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

  // Equal kernels of different layers share a line: a step's name and its scope without numbers. Of the
  // `count` times the shortest counts. Says most with threads=1, where waiting costs nothing.
  void Profile(int count) {
    const Program& program = *trainer_.plan().FindProgram("train");
    std::vector<double> best(program.steps.size(), 1e30);
    for (int i = 0; i < count; ++i) {
      double last = CpuMs();
      trainer_.executor().RunStepwise("train", feed(), [&](int step, Executor&) {
        const double now = CpuMs();
        best[step] = std::min(best[step], now - last);
        last = CpuMs();
      });
    }
    std::map<std::string, Line> by_label;
    double total = 0;
    for (size_t s = 0; s < best.size(); ++s) {
      const PlanStep& step = program.steps[s];
      std::string label = step.name + " @" + step.scope;
      std::erase_if(label, [](char c) { return c >= '0' && c <= '9'; });
      if (const auto* call = std::get_if<KernelCall>(&step.work)) {
        label += StrCat(" k", call->kernel, " ", trainer_.plan().kernels[call->kernel].name);
      }
      Line& line = by_label[label];
      line.label = label, ++line.calls, line.ms += best[s], line.flops += step.flops;
      line.bytes += step.bytes, total += best[s];
    }
    std::vector<Line> lines;
    for (const auto& [label, line] : by_label) lines.push_back(line);
    std::sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.ms > b.ms; });
    std::fprintf(stderr, "%9s %6s %6s %8s %8s  step\n", "ms", "%", "calls", "GFLOP/s", "GB/s");
    for (const Line& l : lines) {
      std::fprintf(stderr, "%9.4f %6.2f %6d %8.1f %8.1f  %s\n", l.ms, 100 * l.ms / total, l.calls,
                   l.flops / l.ms * 1e-6, l.bytes / l.ms * 1e-6, l.label.c_str());
    }
    std::fprintf(stderr, "%9.4f ms, %zu steps\n", total, best.size());
    std::printf("{}\n");
    std::fflush(stdout);
  }

 private:
  Feed feed() const { return {{"tokens", AsBytes(tokens_)}, {"targets", AsBytes(targets_)}}; }

  Device device_;
  Trainer trainer_;
  std::vector<int32_t> tokens_, targets_;
};

void Serve(int argc, char** argv) {
  TrainConfig config;
  config.device = "cpu", config.dtype = "f32", config.vocab_size = 256;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos) {
      Fail(ErrorCode::kInvalidArgument, "expected key=value, got '", word, "'");
    }
    SetConfigText(config, word.substr(0, equals), word.substr(equals + 1), "the command line");
  }
  ValidateConfig(config);
  Steps steps(config);
  for (std::string text; std::getline(std::cin, text);) {
    std::istringstream in(text);
    std::string command;
    int count = 0;
    in >> command >> count;
    if (count < 1 || (command != "run" && command != "profile")) {
      Fail(ErrorCode::kInvalidArgument, "expected 'run N' or 'profile N', got '", text, "'");
    }
    command == "run" ? steps.Run(count) : steps.Profile(count);
  }
}

}  // namespace
}  // namespace stator

int main(int argc, char** argv) {
  try {
    stator::Serve(argc, argv);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "stator_cpu_steps: %s\n", e.what());
    return 1;
  }
}
