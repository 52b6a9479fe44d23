// Executes the programs of a Plan on one device. The same interface on CPU and GPU.
#pragma once

#include "codegen/plan.h"
#include "runtime/timed_run.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace stator {

enum class ExecutionMode {
  kEager,  // enqueue each step of the plan
  kGraph,  // capture each program once and replay it (GPU); on a CPU the same as eager
};

// How matrix products get their algorithms on a GPU, where the tuning file says nothing.
enum class Tuning {
  kFirst,   // the library's first proposal
  kSearch,  // what was recorded on such a device, else the fastest of some, kept in the tuning file
  kRecord,  // the fastest of some, timed at leisure: for a tuning file to ship
};

struct ExecutorOptions {
  ExecutionMode mode = ExecutionMode::kGraph;
  int threads = 0;  // CPU threads; 0: what OpenMP would take
  int device = 0;   // GPU ordinal
  std::string cache_dir =
      {};  // of compiled kernels; "": $STATOR_CACHE, $XDG_CACHE_HOME/stator or ~/.cache/stator
  std::string tuning_file = {};  // GEMM algorithm choices; "": inside the cache directory
  Tuning tuning = Tuning::kSearch;
  // On a GPU: steps run on the streams that the plan gives them, and (compute capability 9.0 or
  // more) kernels of a captured program are launched while the one before them still runs, and wait
  // for its end. Not when `timed`: their times would overlap.
  bool overlap = true;
  bool fast = false;   // admit non-deterministic library kernels
  bool timed = false;  // for RunTimed: the GPU's tracer is attached before anything is loaded
};

// What the device really holds, bytes, measured at load.
struct MemoryReport {
  int64_t state = 0, arena = 0, io = 0;
  int64_t libraries = 0;  // handles, workspaces, contexts, modules, captured graphs; by the
                          // device's free memory, so below 0 when others free theirs meanwhile
};

using Bytes = std::span<const char>;
using OutputMap = std::map<std::string, std::vector<char>>;
// Makes a state's dense bytes from `offset` on: whole elements, aligned as such. Called from
// several threads at once.
using StateSource = std::function<void(int64_t offset, std::span<char> out)>;

class Executor {
 public:
  virtual ~Executor() = default;

  virtual const Plan& plan() const = 0;

  // Dense bytes of one state entry. Throws `Error` for an unknown name or a wrong size. All wait
  // for everything enqueued before.
  virtual void WriteState(const std::string& name, Bytes bytes) = 0;
  // As WriteState, of bytes made where they are needed, in pieces: none is copied in memory without
  // need, and the next ones are made while those before are on their way to a GPU. What `source`
  // throws is thrown on and leaves the state half written.
  virtual void FillState(const std::string& name, const StateSource& source) = 0;
  virtual std::vector<char> ReadState(const std::string& name) = 0;

  // Checks inputs (names, sizes, ids in range) and enqueues upload, program and the download of its
  // outputs; does not wait for the device. Returns a ticket. At most `kMaxInFlight` runs are in
  // flight: beyond that it waits for the oldest.
  virtual int64_t Enqueue(const std::string& program,
                          const std::map<std::string, Bytes>& inputs) = 0;
  // The outputs of a run, waiting for it. A ticket can be taken once, and stays valid until
  // kMaxInFlight further runs have been enqueued.
  virtual OutputMap Wait(int64_t ticket) = 0;
  virtual void Synchronize() = 0;

  virtual MemoryReport memory() const = 0;

  // Runs `program` eagerly and hands `visit` each step's index and a reader of any buffer, after
  // the step has finished. For `stator check`, probes and tests.
  using StepVisitor = void(int step, Executor& self);
  virtual void RunStepwise(const std::string& program, const std::map<std::string, Bytes>& inputs,
                           const std::function<StepVisitor>& visit) = 0;
  virtual std::vector<char> ReadBuffer(BufferRef buffer, int64_t bytes) = 0;

  // Runs `program` and times its steps, waiting for it; states move on, by two runs where a first
  // way of timing has failed. On a GPU the steps are timed inside the captured graph by CUPTI's
  // records if the executor was made `timed` and CUPTI is there, else by events between steps that
  // are enqueued one by one.
  virtual TimedRun RunTimed(const std::string& program,
                            const std::map<std::string, Bytes>& inputs) = 0;
  virtual DeviceConditions Conditions() = 0;

  static constexpr int kMaxInFlight = 4;
};

// Compiles what is not in the cache, loads modules, allocates everything, zeroes the state. Throws
// `Error` (kEnvironment, kOutOfMemory) before any data is touched.
std::unique_ptr<Executor> MakeExecutor(Plan plan, const ExecutorOptions& options);
// Used by MakeExecutor; MakeCudaExecutor throws `Error` in a CPU-only build.
std::unique_ptr<Executor> MakeCpuExecutor(Plan plan, const ExecutorOptions& options);
std::unique_ptr<Executor> MakeCudaExecutor(Plan plan, const ExecutorOptions& options);

// Compiles every module that has no binary yet, so that a saved plan runs without a compiler.
void CompilePlan(Plan& plan, const ExecutorOptions& options);

// The device as passes see it. Throws `Error` when there is no such device.
std::unique_ptr<Target> MakeCpuTarget();
std::unique_ptr<Target> MakeCudaTarget(int device);
// From a recorded table: "h200", "h100", "a100", "l4", ... Throws `Error` listing the known names.
std::unique_ptr<Target> MakeRecordedTarget(const std::string& name);
bool HasCudaDevice(std::string* why_not);

}  // namespace stator
