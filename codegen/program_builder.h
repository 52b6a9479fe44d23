// Assembles a Plan: places state and io, resolves values to buffers, shares equal kernels.
#pragma once

#include "codegen/build_plan.h"
#include "codegen/emit_region.h"
#include "codegen/merge_calls.h"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace stator {

class PlanBuilder {
 public:
  PlanBuilder(const Target& target, const BuildOptions& options);

  // Throws `Error` when an earlier program declared a state of that name with another type.
  void AddStates(const Graph& graph);
  // `steps`: about how many are to come.
  void BeginProgram(const std::string& name, const Graph& graph, size_t steps);
  // Copies outputs and next states that were not computed in place.
  void EndProgram();
  Plan Finish();

  Language language() const { return language_; }
  const CudaLimits& limits() const { return limits_; }
  // Before a region's step, and where it has nothing to do and gets none: what it waits for is
  // waited for by the next step then, and who waits for it waits for the step ahead of it.
  void BeginRegion(std::span<Node* const> nodes);
  void AddKernel(std::span<Node* const> nodes, const EmittedKernel& kernel);
  // With what joins the call: `nodes` is the region.
  void AddMatMul(const Node& node, std::span<Node* const> nodes);
  void AddAttention(const Node& node, std::span<Node* const> nodes);
  void AddSort(const Node& node);
  void AddSegmentSum(const Node& node, std::span<Node* const> nodes);

 private:
  BufferRef BufferOf(Value base) const;  // of a value that is no view
  BufferRef StateBuffer(const Param& state) const;
  TensorRef TensorOf(Value v) const;  // absent for a null value
  PlanStep& AddStep(std::span<Node* const> nodes, StepWork work);
  void NoteValues(std::span<Node* const> nodes);
  int KernelIndex(const std::string& name, const std::string& body,
                  const std::string& helpers = "");
  // Makes one call of neighbours on unrelated buffers that call the same kernel, or little ones.
  void MergeSteps();
  size_t EndOfLaunch(size_t first);
  void SetWaits();
  PlanStep Merged(size_t first, size_t next);
  bool AreUnrelated(size_t a, size_t b) const;
  void EmitKernels();
  int64_t AddIo(const Type& type);

  Language language_;
  CudaLimits limits_;
  Plan plan_;
  std::map<std::string, int64_t> state_index_;  // name -> entry
  std::map<std::string, int> kernel_by_body_;
  std::map<int, MergeNeeds> needs_;   // by kernel
  std::vector<std::string> bodies_;   // by kernel; those that are called at the end become source
  std::vector<std::string> helpers_;  // by kernel; one with helpers has a module of its own
  struct Argument {
    int64_t bytes;  // that the kernel may touch: to the buffer's end
    bool written;
  };
  std::vector<std::vector<Argument>> arguments_;  // by step of the program: of a kernel
  std::vector<Traffic> traffic_;                  // the same
  const Graph* graph_ = nullptr;
  Program* program_ = nullptr;
  std::map<const Node*, BufferRef> inputs_;
  std::map<Value, BufferRef> outputs_;
  std::map<int, int> step_of_region_;
  std::map<int, int> last_step_;  // by stream
  int wait_ = -1;                 // of the next step on stream 0
  std::vector<int> joins_;        // by step: the one of another stream to wait for, or -1
  bool deterministic_;
  StepValues* values_;
  bool merge_;
};

}  // namespace stator
