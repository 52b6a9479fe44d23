// The executor of CUDA plans: fixed addresses, programs replayed as graphs, the host never waited
// for and never waiting in the steady state.
#pragma once

#include "runtime/cuda/activity_trace.h"
#include "runtime/cuda/builder.h"
#include "runtime/cuda/program_runner.h"
#include "runtime/cuda/resources.h"
#include "runtime/executor.h"

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace stator {

class CudaExecutor : public Executor {
 public:
  CudaExecutor(Plan plan, const ExecutorOptions& options, const MatMulOptions& matmul = {});
  ~CudaExecutor() override;

  const Plan& plan() const override { return plan_; }
  void WriteState(const std::string& name, Bytes bytes) override;
  void FillState(const std::string& name, const StateSource& source) override;
  std::vector<char> ReadState(const std::string& name) override;
  int64_t Enqueue(const std::string& program, const std::map<std::string, Bytes>& inputs) override;
  OutputMap Wait(int64_t ticket) override;
  void Synchronize() override;
  MemoryReport memory() const override { return memory_; }
  void RunStepwise(const std::string& program, const std::map<std::string, Bytes>& inputs,
                   const std::function<StepVisitor>& visit) override;
  std::vector<char> ReadBuffer(BufferRef buffer, int64_t bytes) override;
  TimedRun RunTimed(const std::string& program,
                    const std::map<std::string, Bytes>& inputs) override;
  DeviceConditions Conditions() override;

  size_t GraphNodes(const std::string& program);  // of the captured graph

 private:
  // One run in flight: its pinned blocks, and the event after its outputs have arrived.
  struct Slot {
    PinnedMemory in, out;
    CudaEvent done;
    int64_t ticket = -1;
    ProgramRunner* runner = nullptr;
    bool finished = true, taken = true;
  };
  // A packed block of inputs on the device. Two of them, so that one upload runs beside the
  // program that reads the other's.
  struct Upload {
    DeviceMemory block;
    CudaEvent arrived, consumed;
  };

  // A piece of a state, on its way to the device until `sent`. Two of them, so that one piece is
  // made while the other is sent.
  struct Staging {
    PinnedMemory block;
    CudaEvent sent;
  };

  void Allocate();
  void BuildPrograms(const ExecutorOptions& options, const MatMulOptions& matmul);
  void ZeroSpaces();
  // One whose piece has been sent. Allocated at its first use.
  Staging& FreeStaging(int turn);
  ProgramRunner& Find(const std::string& program);
  // For runs that the host waits for: puts the inputs where the program reads them.
  void PlaceInputs(const Program& program, const std::map<std::string, Bytes>& inputs);
  // Empty where the records do not fit the program; untraced_ says why.
  std::vector<StepSpan> Trace(ProgramRunner& runner);
  void PackInputs(Slot& slot, const std::map<std::string, Bytes>& inputs);
  void EnqueueUpload(Slot& slot);
  void EnqueueDownload(Slot& slot);
  void Finish(Slot& slot);
  void Activate() const;
  std::string InFlight() const;

  Plan plan_;
  int device_;
  std::unique_ptr<ActivityTrace> trace_;  // null unless the options say `timed`
  std::string untraced_ = "not asked for when the plan was loaded";  // "": steps are traced
  DeviceMemory state_, arena_, io_;
  SpaceMap spaces_;
  std::vector<DeviceMemory> workspaces_;  // by stream
  std::unique_ptr<StreamSet> streams_;
  CudaStream copy_stream_;
  std::unique_ptr<StepBuilder> builder_;
  std::map<std::string, std::unique_ptr<ProgramRunner>> runners_;
  std::array<Slot, kMaxInFlight> slots_;
  std::array<Upload, 2> uploads_;
  std::array<Staging, 2> staging_;
  int64_t next_ticket_ = 0;
  MemoryReport memory_;
};

}  // namespace stator
