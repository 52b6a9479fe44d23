#include "runtime/cuda/cuda_executor.h"

#include "ir/base/error.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/nvml.h"
#include "runtime/kernel_cache.h"
#include "runtime/program_io.h"

#include <algorithm>
#include <cstring>

namespace stator {
namespace {

constexpr int64_t kStagingBytes = int64_t{16} << 20;  // a multiple of every dtype's width

int StreamCount(const Plan& plan) {
  int last = 0;
  for (const Program& program : plan.programs) {
    for (const PlanStep& step : program.steps) last = std::max(last, step.stream);
  }
  return last + 1;
}

void CheckTarget(const Plan& plan, const DeviceInfo& device) {
  const std::string here = StrCat("sm_", device.sm);
  if (plan.device == DeviceKind::kCuda && plan.target == here) return;
  Fail(ErrorCode::kEnvironment, "plan '", plan.name, "' was made for ", plan.target,
       ", this device (", device.name, ") is ", here, ": compile it again here");
}

// Their order in the plan is one in which the steps can run one after another.
void PutOnOneStream(Plan& plan) {
  for (Program& program : plan.programs) {
    for (PlanStep& step : program.steps) step.stream = 0, step.waits.clear();
  }
}

}  // namespace

CudaExecutor::CudaExecutor(Plan plan, const ExecutorOptions& options, const MatMulOptions& matmul)
    : plan_(std::move(plan)), device_(options.device) {
  VerifyPlan(plan_);
  if (options.timed || !options.overlap) PutOnOneStream(plan_);
  if (options.timed) {
    trace_ = std::make_unique<ActivityTrace>();
    untraced_ = trace_->why_not();
  }
  UseCudaDevice(device_);
  CheckTarget(plan_, DescribeDevice(device_));
  const int64_t before = DeviceBytesUsed();
  Allocate();
  memory_.state = state_.bytes(), memory_.arena = arena_.bytes(), memory_.io = io_.bytes();
  BuildPrograms(options, matmul);
  ZeroSpaces();
  memory_.libraries = DeviceBytesUsed() - before - memory_.state - memory_.arena - memory_.io;
  if (untraced_.empty()) (void)trace_->Stop(&untraced_);
}

CudaExecutor::~CudaExecutor() {
  (void)cudaSetDevice(device_);
  (void)cudaDeviceSynchronize();
}

void CudaExecutor::Activate() const {
  CheckCuda(cudaSetDevice(device_), StrCat("use GPU ", device_));
}

void CudaExecutor::Allocate() {
  state_ = DeviceMemory(plan_.state_bytes, "the state of plan '" + plan_.name + "'");
  arena_ = DeviceMemory(plan_.arena_bytes, "the arena of plan '" + plan_.name + "'");
  io_ = DeviceMemory(plan_.io_bytes, "inputs and outputs of plan '" + plan_.name + "'");
  spaces_.base[static_cast<int>(Space::kState)] = state_.data();
  spaces_.base[static_cast<int>(Space::kArena)] = arena_.data();
  spaces_.base[static_cast<int>(Space::kIo)] = io_.data();
  streams_ = std::make_unique<StreamSet>(StreamCount(plan_));
  copy_stream_ = MakeStream();
}

void CudaExecutor::BuildPrograms(const ExecutorOptions& options, const MatMulOptions& matmul) {
  KernelCache cache(KernelCacheDir(options.cache_dir));
  const DeviceInfo device = DescribeDevice(device_);
  const std::string tuning =
      options.tuning_file.empty() ? cache.dir() + "/tuning.json" : options.tuning_file;
  MatMulOptions noisy = matmul;
  noisy.before_search = [this] {
    for (const DeviceMemory* memory : {&state_, &arena_, &io_}) FillWithNoise(*memory);
  };
  builder_ =
      std::make_unique<StepBuilder>(plan_,
                                    StepBuilderOptions{device.sm, device.name, tuning, cache.dir(),
                                                       noisy, options.overlap && !options.timed},
                                    cache);

  std::vector<int64_t> needs(static_cast<size_t>(streams_->size()), 0);
  for (const Program& program : plan_.programs) {
    for (const PlanStep& step : program.steps) {
      int64_t& need = needs[static_cast<size_t>(step.stream)];
      need = std::max(need, builder_->OwnWorkspace(step));
    }
  }
  for (const int64_t need : needs) workspaces_.emplace_back(need, "library workspace");

  int64_t in = 0, out = 0;
  for (const Program& program : plan_.programs) {
    std::vector<CudaStepPtr> steps;
    for (const PlanStep& step : program.steps) {
      char* workspace = workspaces_[static_cast<size_t>(step.stream)].data();
      steps.push_back(builder_->Build(program, step, spaces_, workspace));
    }
    auto runner = std::make_unique<ProgramRunner>(program, std::move(steps), *streams_);
    runner->Capture(options.mode == ExecutionMode::kGraph, /*count=*/trace_ != nullptr);
    in = std::max(in, runner->inputs().bytes);
    out = std::max(out, runner->outputs().bytes);
    runners_.emplace(program.name, std::move(runner));
  }
  builder_->SaveTuning();
  for (Slot& slot : slots_) {
    slot.in = PinnedMemory(in, "inputs");
    slot.out = PinnedMemory(out, "outputs");
    slot.done = MakeEvent();
  }
  for (Upload& upload : uploads_) {
    upload.block = DeviceMemory(in, "uploads");
    upload.arrived = MakeEvent();
    upload.consumed = MakeEvent();
  }
}

void CudaExecutor::ZeroSpaces() {
  for (const DeviceMemory* memory : {&state_, &arena_, &io_}) {
    if (memory->bytes() == 0) continue;
    CheckCuda(
        cudaMemsetAsync(memory->data(), 0, static_cast<size_t>(memory->bytes()), (*streams_)[0]),
        "clear memory");
  }
  CheckCuda(cudaDeviceSynchronize(), "load plan '" + plan_.name + "'");
}

ProgramRunner& CudaExecutor::Find(const std::string& program) {
  return *runners_.at(RequireProgram(plan_, program).name);
}

void CudaExecutor::WriteState(const std::string& name, Bytes bytes) {
  CheckStateSize(RequireState(plan_, name), bytes.size());
  FillState(name, SourceOf(bytes));
}

CudaExecutor::Staging& CudaExecutor::FreeStaging(int turn) {
  Staging& staging = staging_[static_cast<size_t>(turn) % staging_.size()];
  if (staging.block.data() == nullptr) {
    int64_t largest = 0;
    for (const StateEntry& s : plan_.states) largest = std::max(largest, s.type.Bytes());
    staging.sent = MakeEvent();
    staging.block = PinnedMemory(std::min(largest, kStagingBytes), "states");
  }
  CheckCuda(cudaEventSynchronize(staging.sent.get()), "write states");
  return staging;
}

void CudaExecutor::FillState(const std::string& name, const StateSource& source) {
  const StateEntry& entry = RequireState(plan_, name);
  Synchronize();
  const int64_t width = ByteWidth(entry.type.dtype), elements = entry.type.NumElements();
  const int64_t piece = kStagingBytes / width;
  const auto send = [&](int64_t offset, const char* from, int64_t bytes) {
    CheckCuda(
        cudaMemcpyAsync(state_.data() + entry.offset + offset, from, static_cast<size_t>(bytes),
                        cudaMemcpyHostToDevice, copy_stream_.get()),
        "write state " + name);
  };
  int turn = 0;
  for (int64_t first = 0; first < elements; first += piece) {
    const int64_t count = std::min(piece, elements - first);
    Staging& staging = FreeStaging(turn++);
    char* const block = staging.block.data();
    char* const low = block + 2 * count;
    MakeElements(entry, source, first, count, block, low);
    if (entry.halves) {
      send(2 * first, block, 2 * count);
      send(entry.LowHalves() + 2 * first, low, 2 * count);
    } else {
      send(width * first, block, width * count);
    }
    CheckCuda(cudaEventRecord(staging.sent.get(), copy_stream_.get()), "write state " + name);
  }
  CheckCuda(cudaStreamSynchronize(copy_stream_.get()), "write state " + name);
}

std::vector<char> CudaExecutor::ReadState(const std::string& name) {
  const StateEntry& entry = RequireState(plan_, name);
  std::vector<char> stored = ReadBuffer({Space::kState, entry.offset}, entry.StoredBytes());
  return entry.halves ? JoinHalves(entry, stored) : stored;
}

std::vector<char> CudaExecutor::ReadBuffer(BufferRef buffer, int64_t bytes) {
  CheckRange(plan_, buffer, bytes);
  Synchronize();
  std::vector<char> out(static_cast<size_t>(bytes));
  if (out.empty()) return out;
  CheckCuda(cudaMemcpy(out.data(), spaces_(buffer), out.size(), cudaMemcpyDeviceToHost),
            "read a buffer");
  return out;
}

std::string CudaExecutor::InFlight() const {
  std::vector<std::string> names;
  for (int64_t ticket = std::max<int64_t>(0, next_ticket_ - kMaxInFlight); ticket < next_ticket_;
       ++ticket) {
    const Slot& slot = slots_[static_cast<size_t>(ticket % kMaxInFlight)];
    if (slot.finished) continue;
    names.push_back(StrCat("'", slot.runner->program().name, "' (run ", slot.ticket, ")"));
  }
  return names.empty() ? "nothing" : Join(names, ", ");
}

void CudaExecutor::Finish(Slot& slot) {
  if (slot.finished) return;
  const cudaError_t status = cudaEventSynchronize(slot.done.get());
  CheckCuda(status,
            StrCat("plan '", plan_.name, "' failed on the device, in flight: ", InFlight()));
  slot.finished = true;
}

void CudaExecutor::PackInputs(Slot& slot, const std::map<std::string, Bytes>& inputs) {
  for (const PackedBuffer& buffer : slot.runner->inputs().buffers) {
    const Bytes bytes = inputs.at(buffer.name);
    if (!bytes.empty()) std::memcpy(slot.in.data() + buffer.staged, bytes.data(), bytes.size());
  }
}

void CudaExecutor::EnqueueUpload(Slot& slot) {
  const Packing& inputs = slot.runner->inputs();
  if (inputs.bytes == 0) return;
  Upload& upload = uploads_[static_cast<size_t>(slot.ticket) % uploads_.size()];
  const cudaStream_t copies = copy_stream_.get(), main = (*streams_)[0];
  CheckCuda(cudaStreamWaitEvent(copies, upload.consumed.get(), 0), "upload inputs");
  CheckCuda(cudaMemcpyAsync(upload.block.data(), slot.in.data(), static_cast<size_t>(inputs.bytes),
                            cudaMemcpyHostToDevice, copies),
            "upload inputs");
  CheckCuda(cudaEventRecord(upload.arrived.get(), copies), "upload inputs");
  CheckCuda(cudaStreamWaitEvent(main, upload.arrived.get(), 0), "upload inputs");
  for (const CopyRange& range : inputs.ranges) {
    if (range.bytes == 0) continue;
    CheckCuda(cudaMemcpyAsync(spaces_(range.device), upload.block.data() + range.staged,
                              static_cast<size_t>(range.bytes), cudaMemcpyDeviceToDevice, main),
              "place inputs");
  }
  CheckCuda(cudaEventRecord(upload.consumed.get(), main), "place inputs");
}

void CudaExecutor::EnqueueDownload(Slot& slot) {
  const cudaStream_t main = (*streams_)[0];
  for (const CopyRange& range : slot.runner->outputs().ranges) {
    if (range.bytes == 0) continue;
    CheckCuda(cudaMemcpyAsync(slot.out.data() + range.staged, spaces_(range.device),
                              static_cast<size_t>(range.bytes), cudaMemcpyDeviceToHost, main),
              "download outputs");
  }
  CheckCuda(cudaEventRecord(slot.done.get(), main), "download outputs");
}

int64_t CudaExecutor::Enqueue(const std::string& program,
                              const std::map<std::string, Bytes>& inputs) {
  ProgramRunner& runner = Find(program);
  CheckInputs(runner.program(), inputs);
  Activate();
  Slot& slot = slots_[static_cast<size_t>(next_ticket_ % kMaxInFlight)];
  Finish(slot);
  slot.runner = &runner;
  slot.ticket = next_ticket_;
  PackInputs(slot, inputs);
  try {
    EnqueueUpload(slot);
    runner.Enqueue();
    EnqueueDownload(slot);
  } catch (const Error& error) {
    // A fault of an earlier run shows at whatever comes next.
    Fail(error.code(), "program '", program, "': ", error.what(), "; in flight: ", InFlight());
  }
  slot.finished = slot.taken = false;
  return next_ticket_++;
}

OutputMap CudaExecutor::Wait(int64_t ticket) {
  if (ticket < 0 || ticket >= next_ticket_) {
    Fail(ErrorCode::kInvalidArgument, "there is no run ", ticket);
  }
  Slot& slot = slots_[static_cast<size_t>(ticket % kMaxInFlight)];
  if (slot.ticket != ticket || slot.taken) {
    Fail(ErrorCode::kInvalidArgument, "the outputs of run ", ticket,
         slot.ticket == ticket ? " were taken already"
                               : " are gone: too many runs were enqueued since");
  }
  Activate();
  Finish(slot);
  slot.taken = true;
  OutputMap outputs;
  for (const PackedBuffer& buffer : slot.runner->outputs().buffers) {
    const char* begin = slot.out.data() + buffer.staged;
    outputs[buffer.name].assign(begin, begin + buffer.bytes);
  }
  return outputs;
}

void CudaExecutor::Synchronize() {
  Activate();
  for (int64_t ticket = std::max<int64_t>(0, next_ticket_ - kMaxInFlight); ticket < next_ticket_;
       ++ticket) {
    Finish(slots_[static_cast<size_t>(ticket % kMaxInFlight)]);
  }
  CheckCuda(cudaStreamSynchronize((*streams_)[0]), "wait for plan '" + plan_.name + "'");
}

void CudaExecutor::PlaceInputs(const Program& program, const std::map<std::string, Bytes>& inputs) {
  CheckInputs(program, inputs);
  Synchronize();
  for (const PlanInput& input : program.inputs) {
    const Bytes bytes = inputs.at(input.name);
    if (bytes.empty()) continue;
    CheckCuda(cudaMemcpy(spaces_(input.buffer), bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
              "upload input " + input.name);
  }
}

std::vector<StepSpan> CudaExecutor::Trace(ProgramRunner& runner) {
  CheckCuda(cudaDeviceSynchronize(), "wait for plan '" + plan_.name + "'");
  trace_->Start(&untraced_);
  runner.Enqueue();
  CheckCuda(cudaDeviceSynchronize(), "time program " + runner.program().name);
  std::string lost;
  std::vector<DeviceActivity> activities = trace_->Stop(&lost);
  if (untraced_.empty()) untraced_ = lost;
  std::vector<StepSpan> spans;
  if (untraced_.empty()) {
    untraced_ = AssignActivities(plan_, runner.program(), runner.step_nodes(),
                                 std::move(activities), &spans);
  }
  return spans;
}

TimedRun CudaExecutor::RunTimed(const std::string& program,
                                const std::map<std::string, Bytes>& inputs) {
  ProgramRunner& runner = Find(program);
  PlaceInputs(runner.program(), inputs);
  if (untraced_.empty()) {
    std::vector<StepSpan> spans = Trace(runner);
    if (untraced_.empty()) {
      return {std::move(spans), runner.replays()
                                    ? "CUPTI's records of the kernels in the captured graph"
                                    : "CUPTI's records of the kernels"};
    }
  }
  return {runner.TimeSteps(),
          "CUDA events between steps enqueued one by one (CUPTI: " + untraced_ + ")"};
}

DeviceConditions CudaExecutor::Conditions() { return ReadConditions(device_); }

void CudaExecutor::RunStepwise(const std::string& program,
                               const std::map<std::string, Bytes>& inputs,
                               const std::function<StepVisitor>& visit) {
  ProgramRunner& runner = Find(program);
  PlaceInputs(runner.program(), inputs);
  const std::vector<PlanStep>& steps = runner.program().steps;
  for (size_t i = 0; i < steps.size(); ++i) {
    runner.EnqueueStep(static_cast<int>(i));
    CheckCuda(
        cudaStreamSynchronize((*streams_)[0]),
        StrCat("program '", program, "' step ", i, " (", steps[i].name, ", ", steps[i].scope, ")"));
    visit(static_cast<int>(i), *this);
  }
}

size_t CudaExecutor::GraphNodes(const std::string& program) { return Find(program).graph_nodes(); }

std::unique_ptr<Executor> MakeCudaExecutor(Plan plan, const ExecutorOptions& options) {
  MatMulOptions matmul;
  matmul.search = options.tuning != Tuning::kFirst;
  matmul.recorded = options.tuning == Tuning::kSearch;
  matmul.thorough = options.tuning == Tuning::kRecord;
  return std::make_unique<CudaExecutor>(std::move(plan), options, matmul);
}

}  // namespace stator
