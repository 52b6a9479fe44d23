#include "codegen/build_plan.h"

#include "codegen/program_builder.h"
#include "ir/base/error.h"
#include "ir/base/parallel.h"
#include "ir/facts.h"
#include "ir/views.h"

#include <algorithm>
#include <unordered_map>

namespace stator {
namespace {

// Nodes of one region, in order; they are contiguous but for views between them.
struct Group {
  std::vector<Node*> nodes;
};

std::vector<Group> GroupsOf(const Graph& graph) {
  std::vector<Group> groups;
  std::unordered_map<int, size_t> at;
  for (Node* node : graph.Nodes()) {
    const int region = RegionOf(*node);
    if (region < 0) continue;
    const auto [it, fresh] = at.emplace(region, groups.size());
    if (fresh) groups.emplace_back();
    groups[it->second].nodes.push_back(node);
  }
  return groups;
}

// The node that says what the group is: a library call, which others join, or the first.
Node* HeadOf(const Group& group) {
  Node* head = group.nodes[0];
  for (Node* n : group.nodes) {
    switch (n->op_class()) {
      case OpClass::kContraction:
      case OpClass::kAttention:
      case OpClass::kScatter:
        head = n;
        break;
      default:
        break;
    }
  }
  return head;
}

// Whether there is an element to compute, and so something to launch.
bool ComputesAnything(const Group& group) {
  return std::any_of(group.nodes.begin(), group.nodes.end(),
                     [](const Node* n) { return n->type().NumElements() > 0; });
}

bool IsKernel(const Group& group) {
  const Node* head = HeadOf(group);
  switch (head->op_class()) {
    case OpClass::kContraction:
      return IsComputedByRegion(*head);
    case OpClass::kElementwise:
    case OpClass::kReduce:
    case OpClass::kMovement:
    case OpClass::kGather:
    case OpClass::kRandom:
    case OpClass::kScan:
      return ComputesAnything(group);
    default:
      return false;
  }
}

// The text of each group that is a kernel. It depends on the group alone, so that threads share the
// work.
std::vector<EmittedKernel> EmitKernels(const std::vector<Group>& groups,
                                       const PlanBuilder& builder) {
  std::vector<EmittedKernel> kernels(groups.size());
  ParallelFor(groups.size(), [&](size_t i) {
    if (!IsKernel(groups[i])) return;
    const Node* head = HeadOf(groups[i]);
    kernels[i] = head->op_class() == OpClass::kScan
                     ? EmitScan(*head, builder.language())
                     : EmitRegion(groups[i].nodes, builder.language(), builder.limits());
  });
  return kernels;
}

void AddGroup(PlanBuilder& builder, const Group& group, const EmittedKernel& kernel) {
  Node* node = HeadOf(group);
  switch (node->op_class()) {
    case OpClass::kContraction:
      if (IsKernel(group)) return builder.AddKernel(group.nodes, kernel);
      builder.AddMatMul(*node, group.nodes);
      return;
    case OpClass::kAttention:
      builder.AddAttention(*node, group.nodes);
      return;
    case OpClass::kSort:
      builder.AddSort(*node);
      return;
    case OpClass::kScatter:
      builder.AddSegmentSum(*node, group.nodes);
      return;
    case OpClass::kScan:
    case OpClass::kElementwise:
    case OpClass::kReduce:
    case OpClass::kMovement:
    case OpClass::kGather:
    case OpClass::kRandom:
      if (IsKernel(group)) builder.AddKernel(group.nodes, kernel);
      return;
    default:
      Fail(ErrorCode::kUnsupported, node->view().Where(), ": no implementation for ops of class ",
           Name(node->op_class()));
  }
}

}  // namespace

Plan BuildPlan(const std::vector<ProgramGraph>& programs, const Target& target,
               const BuildOptions& options) {
  PlanBuilder builder(target, options);
  for (const ProgramGraph& p : programs) builder.AddStates(*p.graph);
  for (const ProgramGraph& p : programs) {
    const std::vector<Group> groups = GroupsOf(*p.graph);
    builder.BeginProgram(p.name, *p.graph, groups.size());
    const std::vector<EmittedKernel> kernels = EmitKernels(groups, builder);
    for (size_t i = 0; i < groups.size(); ++i) {
      builder.BeginRegion(groups[i].nodes);
      AddGroup(builder, groups[i], kernels[i]);
    }
    builder.EndProgram();
  }
  return builder.Finish();
}

}  // namespace stator
