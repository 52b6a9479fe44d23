#include "codegen/build_plan.h"

#include <algorithm>
#include <map>

#include "codegen/program_builder.h"
#include "ir/base/error.h"
#include "ir/facts.h"
#include "ir/views.h"

namespace stator {
namespace {

// Nodes of one region, in order; they are contiguous but for views between them.
struct Group {
  std::vector<Node*> nodes;
};

std::vector<Group> GroupsOf(const Graph& graph) {
  std::vector<Group> groups;
  std::map<int, size_t> at;
  for (Node* node : graph.Nodes()) {
    const int region = RegionOf(*node);
    if (region < 0) continue;
    const auto [it, fresh] = at.emplace(region, groups.size());
    if (fresh) groups.emplace_back();
    groups[it->second].nodes.push_back(node);
  }
  return groups;
}

void EmitGroup(PlanBuilder& builder, const Group& group) {
  Node* node = group.nodes[0];
  for (Node* n : group.nodes) {  // a library call, which others join
    if (n->op_class() == OpClass::kContraction || n->op_class() == OpClass::kAttention) node = n;
  }
  switch (node->op_class()) {
    case OpClass::kContraction: builder.AddMatMul(*node, group.nodes); return;
    case OpClass::kAttention: builder.AddAttention(*node, group.nodes); return;
    case OpClass::kSort: builder.AddSort(*node); return;
    case OpClass::kScatter: builder.AddSegmentSum(*node); return;
    case OpClass::kScan: builder.AddScan(node); return;
    case OpClass::kElementwise:
    case OpClass::kReduce:
    case OpClass::kMovement:
    case OpClass::kGather:
    case OpClass::kRandom: builder.AddKernel(group.nodes); return;
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
    builder.BeginProgram(p.name, *p.graph);
    for (const Group& group : GroupsOf(*p.graph)) EmitGroup(builder, group);
    builder.EndProgram();
  }
  return builder.Finish();
}

}  // namespace stator
