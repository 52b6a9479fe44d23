// One program of a plan on its streams: eagerly step by step, or as a captured graph.
#pragma once

#include "codegen/plan.h"
#include "runtime/cuda/resources.h"
#include "runtime/cuda/staging.h"
#include "runtime/cuda/step.h"
#include "runtime/timed_run.h"

#include <map>
#include <string>
#include <vector>

namespace stator {

// Streams by the plan's numbers; 0 is the main one, on which programs begin and end.
class StreamSet {
 public:
  explicit StreamSet(int count);
  cudaStream_t operator[](int stream) const { return streams_[static_cast<size_t>(stream)].get(); }
  int size() const { return static_cast<int>(streams_.size()); }

 private:
  std::vector<CudaStream> streams_;
};

class ProgramRunner {
 public:
  ProgramRunner(const Program& program, std::vector<CudaStepPtr> steps, const StreamSet& streams);

  // Captures the program, makes the graph ready on the device, and with it loads all code that the
  // program runs. Without `keep` the graph is dropped again. `count`: for step_nodes.
  void Capture(bool keep, bool count);

  // On the main stream: the graph when there is one, else the steps.
  void Enqueue();
  void EnqueueStep(int step) { EnqueueStep(step, streams_[0]); }

  // Enqueues the steps one after another on the main stream with an event between each two, and
  // waits: where the device is faster than the host, a step's span holds the wait for the next.
  std::vector<StepSpan> TimeSteps();

  const Program& program() const { return program_; }
  const Packing& inputs() const { return inputs_; }
  const Packing& outputs() const { return outputs_; }
  bool replays() const { return graph_.get() != nullptr; }  // a captured graph
  size_t graph_nodes() const { return graph_nodes_; }
  // Kernels, copies and fills that each step enqueues, as the capture counted them; empty where it
  // did not: a count asks CUDA about the whole graph twice a step.
  const std::vector<int>& step_nodes() const { return step_nodes_; }

 private:
  void EnqueueSteps();
  void EnqueueStep(int step, cudaStream_t stream);
  int CapturedNodes() const;  // so far; 0 when nothing is being counted

  const Program& program_;
  std::vector<CudaStepPtr> steps_;
  const StreamSet& streams_;
  std::vector<CudaEvent> done_;  // by step; null for those that no other stream waits for
  std::vector<int> side_streams_;
  std::map<int, CudaEvent> joined_;  // by side stream
  CudaEvent forked_;
  Packing inputs_, outputs_;
  CudaGraphExec graph_;
  size_t graph_nodes_ = 0;
  std::vector<int> step_nodes_;
  bool counting_ = false;
};

}  // namespace stator
