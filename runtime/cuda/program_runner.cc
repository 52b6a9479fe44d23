#include "runtime/cuda/program_runner.h"

#include "ir/base/error.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/nvtx.h"

#include <algorithm>
#include <set>

namespace stator {
namespace {

template <typename T>
Packing PackAll(const std::vector<T>& items) {
  std::vector<NamedBuffer> buffers;
  for (const T& item : items) buffers.push_back({item.name, item.buffer, item.type.Bytes()});
  return PackBuffers(buffers);
}

// Ends a capture that an error broke off, so that the stream can be used again.
class CaptureScope {
 public:
  CaptureScope(cudaStream_t stream, const std::string& program) : stream_(stream) {
    CheckCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
              "begin the capture of program " + program);
    open_ = true;
  }
  ~CaptureScope() {
    if (!open_) return;
    cudaGraph_t graph = nullptr;
    (void)cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    (void)cudaGetLastError();
  }
  CudaGraph End(const std::string& program) {
    open_ = false;
    cudaGraph_t graph = nullptr;
    CheckCuda(cudaStreamEndCapture(stream_, &graph), "end the capture of program " + program);
    return CudaGraph(graph);
  }

 private:
  cudaStream_t stream_;
  bool open_ = false;
};

}  // namespace

StreamSet::StreamSet(int count) {
  for (int i = 0; i < std::max(1, count); ++i) streams_.push_back(MakeStream());
}

ProgramRunner::ProgramRunner(const Program& program, std::vector<CudaStepPtr> steps,
                             const StreamSet& streams)
    : program_(program),
      steps_(std::move(steps)),
      streams_(streams),
      done_(steps_.size()),
      forked_(MakeEvent()),
      inputs_(PackAll(program.inputs)),
      outputs_(PackAll(program.outputs)) {
  std::set<int> sides;
  for (const PlanStep& step : program.steps) {
    if (step.stream != 0) sides.insert(step.stream);
    for (const int wait : step.waits) {
      CudaEvent& event = done_.at(static_cast<size_t>(wait));
      const bool crosses = program.steps[static_cast<size_t>(wait)].stream != step.stream;
      if (crosses && event.get() == nullptr) event = MakeEvent();
    }
  }
  side_streams_.assign(sides.begin(), sides.end());
  for (const int side : side_streams_) joined_[side] = MakeEvent();
}

void ProgramRunner::EnqueueSteps() {
  const cudaStream_t main = streams_[0];
  if (!side_streams_.empty()) CheckCuda(cudaEventRecord(forked_.get(), main), "fork streams");
  for (const int side : side_streams_) {
    CheckCuda(cudaStreamWaitEvent(streams_[side], forked_.get(), 0), "fork streams");
  }
  for (size_t i = 0; i < steps_.size(); ++i) {
    const PlanStep& step = program_.steps[i];
    const cudaStream_t stream = streams_[step.stream];
    for (const int wait : step.waits) {
      if (program_.steps[static_cast<size_t>(wait)].stream == step.stream) continue;
      CheckCuda(cudaStreamWaitEvent(stream, done_[static_cast<size_t>(wait)].get(), 0),
                "wait for a step");
    }
    const int before = CapturedNodes();
    EnqueueStep(static_cast<int>(i), stream);
    if (counting_) step_nodes_.push_back(CapturedNodes() - before);
    if (done_[i].get() != nullptr)
      CheckCuda(cudaEventRecord(done_[i].get(), stream), "mark a step");
  }
  for (const int side : side_streams_) {
    const cudaEvent_t joined = joined_[side].get();
    CheckCuda(cudaEventRecord(joined, streams_[side]), "join streams");
    CheckCuda(cudaStreamWaitEvent(main, joined, 0), "join streams");
  }
}

void ProgramRunner::EnqueueStep(int step, cudaStream_t stream) {
  const PlanStep& s = program_.steps[static_cast<size_t>(step)];
  const NvtxRange range(s.scope.empty() ? s.name : StrCat(s.scope, " ", s.name));
  steps_[static_cast<size_t>(step)]->Enqueue(stream);
}

int ProgramRunner::CapturedNodes() const {
  if (!counting_) return 0;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaGraph_t graph = nullptr;
  CheckCuda(
      cudaStreamGetCaptureInfo(streams_[0], &status, nullptr, &graph, nullptr, nullptr, nullptr),
      "look at the capture of program " + program_.name);
  size_t nodes = 0;
  CheckCuda(cudaGraphGetNodes(graph, nullptr, &nodes), "count graph nodes");
  return static_cast<int>(nodes);
}

std::vector<StepSpan> ProgramRunner::TimeSteps() {
  std::vector<CudaEvent> marks;
  for (size_t i = 0; i <= steps_.size(); ++i) {
    cudaEvent_t mark = nullptr;
    CheckCuda(cudaEventCreate(&mark), "time program " + program_.name);
    marks.emplace_back(mark);
  }
  const cudaStream_t main = streams_[0];
  CheckCuda(cudaEventRecord(marks[0].get(), main), "time program " + program_.name);
  for (size_t i = 0; i < steps_.size(); ++i) {
    EnqueueStep(static_cast<int>(i), main);
    CheckCuda(cudaEventRecord(marks[i + 1].get(), main), "time program " + program_.name);
  }
  CheckCuda(cudaStreamSynchronize(main), "time program " + program_.name);
  std::vector<StepSpan> spans(steps_.size());
  double at = 0;
  for (size_t i = 0; i < steps_.size(); ++i) {
    float ms = 0;
    CheckCuda(cudaEventElapsedTime(&ms, marks[i].get(), marks[i + 1].get()),
              "time program " + program_.name);
    spans[i] = {at, at + ms * 1e-3};
    at = spans[i].end;
  }
  return spans;
}

void ProgramRunner::Capture(bool keep, bool count) {
  CaptureScope capture(streams_[0], program_.name);
  step_nodes_.clear();
  counting_ = count;
  try {
    EnqueueSteps();
  } catch (...) {
    counting_ = false;
    throw;
  }
  counting_ = false;
  const CudaGraph graph = capture.End(program_.name);
  CheckCuda(cudaGraphGetNodes(graph.get(), nullptr, &graph_nodes_), "count graph nodes");
  cudaGraphExec_t exec = nullptr;
  CheckCuda(cudaGraphInstantiate(&exec, graph.get(), 0), "make the graph of " + program_.name);
  CudaGraphExec owned(exec);
  CheckCuda(cudaGraphUpload(exec, streams_[0]), "upload the graph of " + program_.name);
  CheckCuda(cudaStreamSynchronize(streams_[0]), "upload the graph of " + program_.name);
  if (keep) graph_ = std::move(owned);
}

void ProgramRunner::Enqueue() {
  const NvtxRange range(program_.name);
  if (graph_.get() == nullptr) return EnqueueSteps();
  CheckCuda(cudaGraphLaunch(graph_.get(), streams_[0]), "launch the graph of " + program_.name);
}

}  // namespace stator
