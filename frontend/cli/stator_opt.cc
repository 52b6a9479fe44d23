// stator-opt: passes over the text form, for tests, bug reports and reading.
//
//   stator-opt --pass canonicalize,fuse-regions model.ir
//   stator-opt --emit cuda model.ir            the kernels that LowerPasses leads to
//   stator-opt --list
#include "codegen/build_plan.h"
#include "codegen/prelude.h"
#include "frontend/dsl/optimizer.h"
#include "ir/base/error.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "runtime/executor.h"

#include <CLI/CLI.hpp>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>

namespace stator {
namespace {

struct Arguments {
  std::string file = "-";
  std::string emit = "ir";
  std::vector<std::string> passes;
  std::string optimizer;
  std::string compute_dtype = "f32";
  std::vector<std::string> keep_f32;
  int micro_batches = 1;
  bool list = false, dump_after_each = false, timings = false, unfused = false, fast = false;
  bool strict = false;
};

void Declare(CLI::App& app, Arguments& a) {
  app.add_option("file", a.file, "a graph's text; - reads standard input");
  app.add_option("--pass", a.passes, "passes to run, in this order; all of LowerPasses if absent")
      ->delimiter(',')
      ->allow_extra_args(false);  // the file follows
  app.add_option("--emit", a.emit,
                 "what to print: the graph (ir), its plan for a CPU (plan), or the "
                 "source of the plan's kernels (cpp, cuda)")
      ->check(CLI::IsMember({"ir", "plan", "cpp", "cuda"}));
  app.add_flag("--list", a.list, "print every pass and why it stands where it stands");
  app.add_flag("--dump-after-each", a.dump_after_each, "print the graph after each pass");
  app.add_flag("--timings", a.timings, "print each pass's time and node counts to standard error");
  app.add_option("--compute-dtype", a.compute_dtype, "for mixed-precision: f32, bf16 or f16");
  app.add_option("--keep-f32", a.keep_f32, "for mixed-precision: scope globs")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--micro-batches", a.micro_batches, "for autodiff")->check(CLI::Range(1, 1 << 20));
  app.add_option("--optimizer", a.optimizer,
                 "for apply-optimizer: sgd, adamw or lion, as they come")
      ->check(CLI::IsMember({"sgd", "adamw", "lion"}));
  app.add_flag("--no-fuse", a.unfused, "for fuse-regions: one region a node");
  app.add_flag("--fast", a.fast, "admit non-deterministic kernels");
  app.add_flag("--strict", a.strict, "numerics: no optional tolerance");
}

void List() {
  for (const Pass& pass : AllPasses()) std::cout << pass.name << "\n    " << pass.why_here << "\n";
}

std::string ReadAll(const std::string& file) {
  std::ostringstream text;
  if (file == "-") {
    text << std::cin.rdbuf();
    return text.str();
  }
  if (std::filesystem::is_directory(file)) Fail(ErrorCode::kIo, file, " is a folder");
  std::ifstream in(file);
  if (!in) Fail(ErrorCode::kIo, "cannot read ", file);
  text << in.rdbuf();
  return text.str();
}

PassOptions OptionsOf(const Arguments& a) {
  PassOptions options;
  const auto dtype = ParseDType(a.compute_dtype);
  if (!dtype) Fail(ErrorCode::kInvalidArgument, "unknown dtype ", a.compute_dtype);
  options.compute_dtype = *dtype;
  options.keep_f32 = a.keep_f32;
  options.micro_batches = a.micro_batches;
  options.fuse = !a.unfused;
  options.fast = a.fast;
  options.numerics = a.strict ? Numerics::kStrict : Numerics::kDefault;
  return options;
}

OptimizerSpec OptimizerNamed(const std::string& name, Graph& graph) {
  const std::map<std::string, dsl::Optimizer> known = {
      {"sgd", dsl::Sgd()}, {"adamw", dsl::AdamW()}, {"lion", dsl::Lion()}};
  return known.at(name)(graph);
}

// The plan of the planned graph, as `emit` asks for it. Sources come without the prelude that all
// share.
std::string EmitText(const Graph& graph, const Target& target, const std::string& emit) {
  const Plan plan = BuildPlan({{graph.name(), &graph}}, target, {.plan_name = graph.name()});
  if (emit == "plan") return DescribePlan(plan, true);
  std::string text;
  for (const KernelModule& m : plan.modules) {
    const std::string& prelude = Prelude(m.language);
    text += m.source.starts_with(prelude) ? m.source.substr(prelude.size()) : m.source;
  }
  return text;
}

void Run(const Arguments& a) {
  if (a.emit != "ir" && !a.passes.empty() && a.passes.back() != "plan-memory") {
    Fail(ErrorCode::kInvalidArgument, "emit: a plan needs places in memory: end --pass with ",
         "plan-memory, or leave --pass out");
  }
  const std::unique_ptr<Graph> graph = ParseGraph(ReadAll(a.file));
  PassOptions options = OptionsOf(a);
  std::unique_ptr<Target> target;
  if (a.emit != "ir") {
    target = a.emit == "cuda" ? MakeRecordedTarget("h200") : MakeCpuTarget();
    options.target = target.get();
  }
  OptimizerSpec optimizer;
  if (!a.optimizer.empty()) {
    optimizer = OptimizerNamed(a.optimizer, *graph);
    options.optimizer = &optimizer;
  }
  std::vector<Pass> passes;
  for (const std::string& name : a.passes) passes.push_back(FindPass(name));
  if (a.passes.empty()) passes = LowerPasses();
  std::function<void(const std::string&, const Graph&)> dump;
  if (a.dump_after_each) {
    dump = [](const std::string& pass, const Graph& g) {
      std::cout << "// after " << pass << "\n" << PrintGraph(g) << "\n";
    };
  }
  const std::vector<PassTiming> timings = PassManager(passes).Run(*graph, options, dump);
  if (a.emit != "ir") {
    std::cout << EmitText(*graph, *target, a.emit);
  } else if (!a.dump_after_each) {
    std::cout << PrintGraph(*graph);
  }
  if (!a.timings) return;
  for (const PassTiming& t : timings) {
    std::cerr << t.name << ": " << t.seconds * 1e3 << " ms, " << t.nodes_before << " -> "
              << t.nodes_after << " nodes\n";
  }
}

}  // namespace
}  // namespace stator

int main(int argc, char** argv) {
  CLI::App app("Runs compiler passes over a graph's text and prints the result.", "stator-opt");
  stator::Arguments arguments;
  stator::Declare(app, arguments);
  CLI11_PARSE(app, argc, argv);
  try {
    arguments.list ? stator::List() : stator::Run(arguments);
  } catch (const std::exception& e) {
    std::cerr << "stator-opt: " << e.what() << "\n";
    return 1;
  }
  return 0;
}
