#include "tests/e2e/kernel_cases.h"

#include <cmath>

#include "codegen/build_plan.h"
#include "codegen/scalar.h"
#include "ir/base/error.h"
#include "ir/base/str.h"
#include "ir/interpreter.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "runtime/executor.h"
#include "tests/ir/random_inputs.h"

namespace stator {
namespace {

// Rows and columns past the limits of one block, one lane and one vector.
const std::map<std::string, std::vector<std::string>>& ExtraSamples() {
  static const std::map<std::string, std::vector<std::string>> kExtra = {
      {"sum", {"(f32[3,8193]) {axes=[1]}", "(f32[2,70001]) {axes=[1]}", "(f32[1500,7]) {axes=[0]}",
               "(bf16[40000,3]) {axes=[0]}", "(f32[5,600,33]) {axes=[1]}", "(f32[100000]) {axes=[0]}",
               "(bf16[65,1536]) {axes=[1]}", "(f32[7,1023]) {axes=[1]}", "(f64[3,1025]) {axes=[1]}"}},
      {"max", {"(f32[3,8193]) {axes=[1]}", "(bf16[700,24]) {axes=[0]}"}},
      {"softmax", {"(f32[3,8193])", "(bf16[9,1000])", "(f32[5,70001])"}},
      {"layer_norm", {"(f32[70,768], f32[768], f32[768])", "(bf16[33,1600], bf16[1600], bf16[1600])"}},
      {"rms_norm", {"(bf16[17,4096], bf16[4096])", "(f32[9,96], f32[96])"}},
      {"cross_entropy", {"(f32[5,50257], i32[5])"}},
      {"gelu", {"(bf16[64,3072]) {approximate=\"tanh\"}"}},
      {"add", {"(bf16[1000003], bf16[1000003])"}},
  };
  return kExtra;
}

bool HasKernels(const Graph& graph) {
  for (const Node* n : graph.Nodes()) {
    // No target computes attention in f64 or narrow formats that libraries lack.
    const bool library = n->op_class() == OpClass::kAttention || n->op_class() == OpClass::kContraction;
    for (const Value& v : n->operands()) {
      if (!v || !IsFloat(v.dtype())) continue;
      if (library && (v.dtype() == DType::kF64 || ByteWidth(v.dtype()) == 1)) return false;
    }
  }
  return true;
}

bool IsExact(const Node& n) {
  switch (n.op_class()) {
    case OpClass::kElementwise: return !IsExpensive(n) && !n.Is("fma");
    case OpClass::kReduce:
    case OpClass::kMovement:
    case OpClass::kGather:
    case OpClass::kSort:
    case OpClass::kRandom:
    case OpClass::kScatter:
    case OpClass::kScan:
    case OpClass::kSource: return true;
    default: return false;
  }
}

DType NarrowestFloat(const Graph& graph) {
  DType narrowest = DType::kF64;
  const auto note = [&](DType d) {
    if (IsFloat(d) && (ByteWidth(d) < ByteWidth(narrowest) || d == DType::kBF16)) narrowest = d;
  };
  for (const Param& p : graph.inputs()) note(p.node->type().dtype);
  for (const Output& o : graph.outputs()) note(o.value.dtype());
  return narrowest;
}

double ToleranceOf(DType d) {
  switch (d) {
    case DType::kF64: return 1e-12;
    case DType::kF32: return 2e-6;
    case DType::kF16: return 2e-3;
    case DType::kBF16: return 1.6e-2;
    default: return 0.2;
  }
}

std::string CompareTensors(const Tensor& got, const Tensor& want, const KernelCase& c) {
  double scale = 0;
  for (int64_t k = 0; k < want.size(); ++k) {
    if (std::isfinite(want.Get(k))) scale = std::max(scale, std::fabs(want.Get(k)));
  }
  for (int64_t k = 0; k < want.size(); ++k) {
    const double a = got.Get(k), b = want.Get(k);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (!c.exact && std::isfinite(a) && std::isfinite(b) &&
        std::fabs(a - b) <= c.tolerance * std::max(scale, 1e-3)) {
      continue;
    }
    return StrCat("element ", k, " is ", a, ", the interpreter says ", b);
  }
  return "";
}

}  // namespace

std::vector<KernelCase> KernelCases(const std::string& op_filter) {
  std::vector<KernelCase> cases;
  for (const OpDef* op : DefaultOps().All()) {
    if (!GlobMatch(op_filter, op->name) || op->name == "input" || op->name == "state") continue;
    std::vector<std::string> samples = op->samples;
    if (const auto it = ExtraSamples().find(op->name); it != ExtraSamples().end()) {
      samples.insert(samples.end(), it->second.begin(), it->second.end());
    }
    for (const std::string& sample : samples) {
      KernelCase c{StrCat(op->name, " ", sample), ParseSample(*op, sample)};
      if (!HasKernels(*c.graph)) continue;
      c.exact = true;
      for (const Node* n : c.graph->Nodes()) c.exact = c.exact && IsExact(*n);
      c.tolerance = ToleranceOf(NarrowestFloat(*c.graph));
      cases.push_back(std::move(c));
    }
  }
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
    const auto inputs = RandomInputs(*c.graph, {.seed = i + 1, .specials = specials && c.exact});
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
        const std::string difference =
            CompareTensors(Tensor::FromBytes(type, data.data()), want.outputs[k], c);
        if (!difference.empty()) failures.push_back(StrCat(c.name, ", result ", k, ": ", difference));
      }
    } catch (const Error& e) {
      failures.push_back(StrCat(c.name, ": ", e.what()));
    }
  }
  return failures;
}

}  // namespace stator
