// Executes plans on the CPU: a loop over the steps, each of which uses all threads. Runs are done
// when Enqueue returns; tickets only hold their outputs.
#include "ir/base/error.h"
#include "runtime/cpu/library_steps.h"
#include "runtime/cpu/matmul.h"
#include "runtime/cpu/memory.h"
#include "runtime/cpu/module.h"
#include "runtime/cpu/scratch.h"
#include "runtime/executor.h"
#include "runtime/program_io.h"

#include <omp.h>

#include <chrono>
#include <cstring>
#include <exception>

namespace stator {
namespace {

// What a step needs besides its plain data, made at load.
struct Ready {
  CpuKernel kernel = nullptr;
  std::vector<void*> args;
  std::unique_ptr<CpuMatMul> matmul;
};

// The number of OpenMP threads is a property of the calling thread; it is put back.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) : before_(omp_get_max_threads()) {
    omp_set_num_threads(threads);
  }
  ~ThreadCount() { omp_set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

class CpuExecutor : public Executor {
 public:
  CpuExecutor(Plan plan, const ExecutorOptions& options)
      : plan_(std::move(plan)),
        threads_(options.threads > 0 ? options.threads : omp_get_max_threads()),
        modules_(LoadModules(plan_, options.cache_dir)),
        memory_(plan_) {
    const ThreadCount scope(threads_);
    ScratchNeed need;
    for (const Program& program : plan_.programs) {
      std::vector<Ready>& ready = ready_[program.name];
      for (const PlanStep& step : program.steps) {
        ready.emplace_back();
        std::visit([&](const auto& work) { Prepare(work, ready.back(), need); }, step.work);
      }
    }
    scratch_ = CpuScratch(need, threads_);
    for (auto& [name, ready] : ready_) {
      for (Ready& r : ready) {
        if (r.matmul != nullptr && r.matmul->scratch_bytes() > 0)
          r.matmul->BindScratch(scratch_.shared());
      }
    }
  }

  const Plan& plan() const override { return plan_; }

  void WriteState(const std::string& name, Bytes bytes) override {
    const StateEntry& state = RequireState(plan_, name);
    CheckStateSize(state, bytes.size());
    FillState(name, SourceOf(bytes));
  }

  void FillState(const std::string& name, const StateSource& source) override {
    const StateEntry& state = RequireState(plan_, name);
    char* const at = memory_.state().data() + state.offset;
    MakeElements(state, source, 0, state.type.NumElements(), at, at + state.LowHalves());
  }

  std::vector<char> ReadState(const std::string& name) override {
    const StateEntry& state = RequireState(plan_, name);
    std::vector<char> stored = ReadBuffer({Space::kState, state.offset}, state.StoredBytes());
    return state.halves ? JoinHalves(state, stored) : stored;
  }

  int64_t Enqueue(const std::string& name, const std::map<std::string, Bytes>& inputs) override {
    const Program& program = Begin(name, inputs);
    const ThreadCount scope(threads_);
    const std::vector<Ready>& ready = ready_.at(name);
    for (size_t s = 0; s < program.steps.size(); ++s) Execute(program.steps[s], ready[s]);
    return KeepOutputs(program);
  }

  OutputMap Wait(int64_t ticket) override {
    Slot& slot = slots_[(ticket < 0 ? 0 : ticket) % kMaxInFlight];
    if (ticket < 0 || slot.ticket != ticket) {
      Fail(ErrorCode::kInvalidArgument, "run ", ticket, " has no outputs: they were taken, or ",
           static_cast<int>(kMaxInFlight), " further runs have begun");
    }
    slot.ticket = -1;
    return std::move(slot.outputs);
  }

  void Synchronize() override {}

  MemoryReport memory() const override {
    return {memory_.state().size(), memory_.arena().size(), memory_.io().size(), scratch_.bytes()};
  }

  void RunStepwise(const std::string& name, const std::map<std::string, Bytes>& inputs,
                   const std::function<StepVisitor>& visit) override {
    const Program& program = Begin(name, inputs);
    const std::vector<Ready>& ready = ready_.at(name);
    for (size_t s = 0; s < program.steps.size(); ++s) {
      {
        const ThreadCount scope(threads_);
        Execute(program.steps[s], ready[s]);
      }
      visit(static_cast<int>(s), *this);
    }
  }

  std::vector<char> ReadBuffer(BufferRef buffer, int64_t bytes) override {
    CheckRange(plan_, buffer, bytes);
    const char* from = memory_.At(buffer);
    return bytes == 0 ? std::vector<char>() : std::vector<char>(from, from + bytes);
  }

  TimedRun RunTimed(const std::string& name, const std::map<std::string, Bytes>& inputs) override {
    const Program& program = Begin(name, inputs);
    const ThreadCount scope(threads_);
    const std::vector<Ready>& ready = ready_.at(name);
    TimedRun run{.steps = {}, .method = "host timers around each step"};
    run.steps.reserve(program.steps.size());
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    const auto now = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
    for (size_t s = 0; s < program.steps.size(); ++s) {
      const double start = now();
      Execute(program.steps[s], ready[s]);
      run.steps.push_back({start, now()});
    }
    return run;
  }

  DeviceConditions Conditions() override { return {.why_not = "not read on a CPU"}; }

 private:
  struct Slot {
    int64_t ticket = -1;
    OutputMap outputs;
  };

  // Checks and places the inputs.
  const Program& Begin(const std::string& name, const std::map<std::string, Bytes>& inputs) {
    const Program& program = RequireProgram(plan_, name);
    CheckInputs(program, inputs);
    for (const PlanInput& input : program.inputs) {
      const Bytes bytes = inputs.at(input.name);
      if (!bytes.empty()) std::memcpy(memory_.At(input.buffer), bytes.data(), bytes.size());
    }
    return program;
  }

  int64_t KeepOutputs(const Program& program) {
    Slot& slot = slots_[next_ticket_ % kMaxInFlight];
    slot.ticket = next_ticket_;
    slot.outputs.clear();
    for (const PlanOutput& output : program.outputs) {
      slot.outputs[output.name] = ReadBuffer(output.buffer, output.type.Bytes());
    }
    return next_ticket_++;
  }

  void Prepare(const KernelCall& call, Ready& ready, ScratchNeed&) {
    const Kernel& kernel = plan_.kernels[call.kernel];
    ready.kernel = modules_[kernel.module]->Find(kernel.name);
    for (const BufferRef& arg : call.args) ready.args.push_back(memory_.At(arg));
  }
  void Prepare(const MatMulCall& call, Ready& ready, ScratchNeed& need) {
    ready.matmul = MakeCpuMatMul(call, memory_);
    need.Grow({ready.matmul->scratch_bytes(), 0});
  }
  void Prepare(const AttentionCall& call, Ready&, ScratchNeed& need) {
    need.Grow(AttentionScratch(call));
  }
  void Prepare(const SortCall& call, Ready&, ScratchNeed& need) { need.Grow(SortScratch(call)); }
  void Prepare(const SegmentSumCall& call, Ready&, ScratchNeed& need) {
    need.Grow(SegmentSumScratch(call));
  }
  void Prepare(const FillCall&, Ready&, ScratchNeed&) {}
  void Prepare(const CopyCall&, Ready&, ScratchNeed&) {}

  void Execute(const PlanStep& step, const Ready& ready) {
    std::visit([&](const auto& work) { Run(work, ready); }, step.work);
  }
  void Run(const KernelCall&, const Ready& ready) { ready.kernel(ready.args.data()); }
  void Run(const MatMulCall&, const Ready& ready) { ready.matmul->Run(); }
  void Run(const AttentionCall& call, const Ready&) { RunAttention(call, memory_, scratch_); }
  void Run(const SortCall& call, const Ready&) { RunSort(call, memory_, scratch_); }
  void Run(const SegmentSumCall& call, const Ready&) { RunSegmentSum(call, memory_, scratch_); }
  void Run(const FillCall& call, const Ready&) { RunFill(call, memory_); }
  void Run(const CopyCall& call, const Ready&) { RunCopy(call, memory_); }

  const Plan plan_;
  const int threads_;
  const std::vector<std::unique_ptr<CpuModule>> modules_;
  const CpuMemory memory_;
  CpuScratch scratch_;
  std::map<std::string, std::vector<Ready>> ready_;  // by program, a step each
  Slot slots_[kMaxInFlight];
  int64_t next_ticket_ = 0;
};

}  // namespace

std::unique_ptr<Executor> MakeCpuExecutor(Plan plan, const ExecutorOptions& options) {
  if (plan.device != DeviceKind::kCpu) {
    Fail(ErrorCode::kInvalidArgument, "plan ", plan.name, " is for ", plan.target,
         ", not for a CPU");
  }
  VerifyPlan(plan);
  return std::make_unique<CpuExecutor>(std::move(plan), options);
}

}  // namespace stator
