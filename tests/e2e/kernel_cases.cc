#include "tests/e2e/kernel_cases.h"

#include "codegen/build_plan.h"
#include "frontend/driver/agreement.h"
#include "ir/base/error.h"
#include "ir/base/str.h"
#include "ir/interpreter.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "runtime/executor.h"
#include "tests/e2e/odd_graphs.h"
#include "tests/ir/random_inputs.h"
#include "tests/support/op_cases.h"

#include <algorithm>

namespace stator {
namespace {

// Rows and columns past the limits of one block, one lane and one vector.
const std::map<std::string, std::vector<std::string>>& ExtraSamples() {
  static const std::map<std::string, std::vector<std::string>> kExtra = {
      {"sum",
       {"(f32[3,8193]) {axes=[1]}", "(f32[2,70001]) {axes=[1]}", "(f32[1500,7]) {axes=[0]}",
        "(bf16[40000,3]) {axes=[0]}", "(f32[5,600,33]) {axes=[1]}", "(f32[100000]) {axes=[0]}",
        "(bf16[65,1536]) {axes=[1]}", "(f32[7,1023]) {axes=[1]}", "(f64[3,1025]) {axes=[1]}"}},
      {"max", {"(f32[3,8193]) {axes=[1]}", "(bf16[700,24]) {axes=[0]}"}},
      {"softmax", {"(f32[3,8193])", "(bf16[9,1000])", "(f32[5,70001])"}},
      {"layer_norm",
       {"(f32[70,768], f32[768], f32[768])", "(f32[9,2500], f32[2500], f32[2500])",
        "(bf16[33,1600], bf16[1600], bf16[1600])"}},
      {"rms_norm", {"(bf16[17,4096], bf16[4096])", "(f32[9,96], f32[96])"}},
      {"cross_entropy", {"(f32[5,50257], i32[5])"}},
      {"linear_cross_entropy_grad",
       {"(bf16[200,16], bf16[3001,16], i32[200], f32[200]) {chunk=72}"}},
      {"gelu", {"(bf16[64,3072]) {approximate=\"tanh\"}"}},
      {"add", {"(bf16[1000003], bf16[1000003])"}},
      {"rotary",
       {"(f32[2,64,4,32], f32[64,16], f32[64,16])", "(bf16[1,33,3,64], f32[33,32], f32[33,32])"}},
      {"concat", {"(bf16[65,77], bf16[65,3], bf16[65,512]) {axis=1}"}},
      {"pad", {"(f32[65,77]) {low=[3,5], high=[0,9], interior=[0,1], value=2}"}},
      {"transpose",
       {"(bf16[130,257]) {permutation=[1,0]}", "(f32[2,65,3,33]) {permutation=[0,2,1,3]}"}},
      {"gather", {"(bf16[50,768], i32[129])"}},
      {"segment_sum", {"(f32[1000,96], i32[1000]) {rows=7}"}},
  };
  return kExtra;
}

bool HasKernels(const Graph& graph) {
  for (const Node* n : graph.Nodes()) {
    // No target computes attention in f64 or narrow formats that libraries lack.
    const bool library =
        n->op_class() == OpClass::kAttention || n->op_class() == OpClass::kContraction;
    for (const Value& v : n->operands()) {
      if (!v || !IsFloat(v.dtype())) continue;
      if (library && (v.dtype() == DType::kF64 || ByteWidth(v.dtype()) == 1)) return false;
    }
  }
  return true;
}

KernelCase MakeCase(std::string name, std::unique_ptr<Graph> graph) {
  KernelCase c{std::move(name), std::move(graph)};
  c.exact = true;
  for (const Node* n : c.graph->Nodes()) {
    c.exact = c.exact && IsExact(*n);
    c.tolerance = std::max(c.tolerance, ToleranceOf(*n));
  }
  return c;
}

std::vector<std::string> SamplesOf(const OpDef& op) {
  std::vector<std::string> samples = op.samples;
  if (const auto it = ExtraSamples().find(op.name); it != ExtraSamples().end()) {
    samples.insert(samples.end(), it->second.begin(), it->second.end());
  }
  return samples;
}

bool IsParam(const OpDef& op) { return op.name == "input" || op.name == "state"; }

}  // namespace

std::vector<KernelCase> KernelCases(const std::string& op_filter) {
  std::vector<KernelCase> cases;
  for (const OpDef* op : DefaultOps().All()) {
    if (!GlobMatch(op_filter, op->name) || IsParam(*op)) continue;
    for (const std::string& sample : SamplesOf(*op)) {
      auto graph = ParseSample(*op, sample);
      if (HasKernels(*graph))
        cases.push_back(MakeCase(StrCat(op->name, " ", sample), std::move(graph)));
    }
  }
  return cases;
}

std::vector<KernelCase> GradientCases(const std::string& op_filter) {
  std::vector<KernelCase> cases;
  for (const OpDef* op : DefaultOps().All()) {
    if (!GlobMatch(op_filter, op->name) || IsParam(*op) || !op->grad) continue;
    for (const std::string& sample : SamplesOf(*op)) {
      auto forward = ParseSample(*op, sample);
      if (!HasKernels(*forward) || !IsFloat(OnlyNode(*forward)->type().dtype)) continue;
      auto graph = GradientGraph(*forward);
      graph->EraseDead();
      if (graph->outputs().empty() || !HasKernels(*graph)) continue;
      cases.push_back(MakeCase(StrCat("gradient of ", op->name, " ", sample), std::move(graph)));
      cases.back().forward = std::move(forward);
    }
  }
  return cases;
}

std::vector<KernelCase> OddCases() {
  std::vector<KernelCase> cases;
  for (auto& [name, graph] : OddGraphs()) cases.push_back(MakeCase(name, std::move(graph)));
  return cases;
}

Plan PlanOfCases(const std::vector<KernelCase>& cases, const Target& target, bool fuse) {
  PassOptions options;
  options.target = &target;
  options.fuse = fuse;
  std::vector<std::unique_ptr<Graph>> graphs;
  std::vector<ProgramGraph> programs;
  const PassManager lower(LowerPasses());
  for (size_t i = 0; i < cases.size(); ++i) {
    graphs.push_back(cases[i].graph->Clone());
    try {
      lower.Run(*graphs.back(), options);
    } catch (const Error& e) {
      Fail(e.code(), cases[i].name, ": ", e.what());
    }
    programs.push_back({StrCat(i), graphs.back().get()});
  }
  return BuildPlan(programs, target, {.plan_name = "kernels"});
}

std::vector<std::string> RunCases(const std::vector<KernelCase>& cases, Plan plan, bool specials) {
  const auto executor = MakeExecutor(std::move(plan), {.mode = ExecutionMode::kEager});
  std::vector<std::string> failures;
  for (size_t i = 0; i < cases.size(); ++i) {
    const KernelCase& c = cases[i];
    const RandomOptions random{.seed = i + 1, .specials = specials && c.exact};
    auto inputs = c.forward ? RandomInputs(*c.forward, random) : std::map<std::string, Tensor>();
    inputs.merge(RandomInputs(*c.graph, random));
    std::map<std::string, std::vector<char>> bytes;
    std::map<std::string, Bytes> views;
    for (const auto& [name, tensor] : inputs) bytes[name] = tensor.ToBytes();
    for (const auto& [name, data] : bytes) views[name] = Bytes(data.data(), data.size());
    try {
      const int64_t ticket = executor->Enqueue(StrCat(i), views);
      executor->Wait(ticket);
      const Program& program = *executor->plan().FindProgram(StrCat(i));
      const InterpreterResult want = Interpret(*c.graph, inputs);
      for (size_t k = 0; k < want.outputs.size(); ++k) {
        const Type& type = want.outputs[k].type;
        if (type.NumElements() == 0) continue;
        const auto data = executor->ReadBuffer(program.outputs[k].buffer, type.Bytes());
        const Difference difference = Compare(Tensor::FromBytes(type, data.data()), want.outputs[k],
                                              c.exact ? 0 : c.tolerance);
        if (difference.count == 0) continue;
        failures.push_back(StrCat(c.name, ", result ", k, ": ", difference.ToString()));
      }
    } catch (const Error& e) {
      failures.push_back(StrCat(c.name, ": ", e.what()));
    }
  }
  return failures;
}

}  // namespace stator
