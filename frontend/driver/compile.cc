#include "frontend/driver/compile.h"

#include "codegen/build_plan.h"
#include "frontend/driver/fit_memory.h"
#include "ir/base/error.h"
#include "ir/base/parallel.h"
#include "ir/builder.h"
#include "passes/analysis/shadows.h"
#include "passes/pipeline.h"
#include "passes/training_programs.h"

#include <chrono>
#include <memory>

namespace stator {
namespace {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

PassOptions ToPassOptions(const CompileOptions& options, const Target& target,
                          const OptimizerSpec* optimizer) {
  PassOptions out;
  out.target = &target;
  out.optimizer = optimizer;
  out.compute_dtype = options.compute_dtype;
  out.loss_scale = options.loss_scale;
  out.loss_scale_interval = options.loss_scale_interval;
  out.micro_batches = options.micro_batches;
  out.fuse = options.fuse;
  out.fast = options.fast;
  out.numerics = options.numerics;
  out.own_matmul = options.own_matmul ? OwnMatmul::kWhereFaster : OwnMatmul::kNever;
  out.keep_f32 = options.keep_f32;
#ifdef NDEBUG
  // A fault that a pass leaves is found at the end of its stage; who looks for the pass has a dump.
  out.verify_each_pass = options.on_dump != nullptr;
#endif
  return out;
}

// Copies every parameter into its shadows: what a plan's states need after a checkpoint is read.
// Null when no program has a shadow. Programs may read shadows alone; through this one their
// masters are in the plan.
std::unique_ptr<Graph> DeriveGraph(const std::vector<Graph*>& graphs) {
  auto derive = std::make_unique<Graph>("derive");
  Builder b(*derive);
  for (const Graph* graph : graphs) {
    for (const Param& p : graph->states()) {
      if (!IsShadow(*p.node) || derive->FindState(p.name)) continue;
      const std::string name = ShadowedName(p.name);
      AttrMap attrs = p.node->attrs();
      attrs["role"] = std::string("parameter");
      attrs["derived"] = false;
      const Type type{DType::kF32, p.node->type().shape};
      Value parameter = derive->FindState(name);
      if (!parameter) parameter = derive->AddState(name, type, attrs);
      const Value shadow = derive->AddState(p.name, p.node->type(), p.node->attrs());
      b.SetScope(name);
      derive->SetNextState(shadow, b.Cast(parameter, p.node->type().dtype));
    }
  }
  return derive->states().empty() ? nullptr : std::move(derive);
}

// Lowers every graph and emits the plan.
void Finish(const std::string& name, std::vector<std::unique_ptr<Graph>> graphs,
            const Target& target, const CompileOptions& options, const PassOptions& pass_options,
            CompiledModel& out) {
  const Stopwatch lowering;
  const int64_t arena = options.memory_budget - BytesBesidesArena(graphs, target);
  const auto lower = [&](size_t i) {
    std::unique_ptr<Graph>& graph = graphs[i];
    std::function<void(const std::string&, const Graph&)> on_dump;
    if (options.on_dump) {
      on_dump = [&](const std::string& pass, const Graph& g) {
        options.on_dump(graph->name(), pass, g);
      };
    }
    out.timings[i] = {graph->name(),
                      LowerToFit(graph, pass_options, options.memory_budget, arena, on_dump)};
  };
  out.timings.resize(graphs.size());
  // Programs know nothing of each other any more. Dumps come one after the other.
  if (options.on_dump) {
    for (size_t i = 0; i < graphs.size(); ++i) lower(i);
  } else {
    ParallelFor(graphs.size(), lower);
  }
  std::vector<ProgramGraph> programs;
  for (const auto& graph : graphs) programs.push_back({graph->name(), graph.get()});
  out.pass_seconds += lowering.seconds();
  const Stopwatch building;
  out.plan = BuildPlan(programs, target,
                       {.plan_name = name,
                        .deterministic = !options.fast,
                        .values = options.keep_graphs ? &out.values : nullptr});
  out.build_seconds = building.seconds();
  if (options.keep_graphs) out.graphs = std::move(graphs);
}

std::vector<Graph*> Pointers(const std::vector<std::unique_ptr<Graph>>& graphs) {
  std::vector<Graph*> pointers;
  for (const auto& graph : graphs) pointers.push_back(graph.get());
  return pointers;
}

// The training programs of `model`, if there is one, and those of `options.forward`.
std::vector<std::unique_ptr<Graph>> BuildGraphs(const Graph* model, const CompileOptions& options,
                                                const PassOptions& pass_options) {
  TrainingGraphs training;
  std::vector<std::unique_ptr<Graph>> forward(options.forward.size());
  ParallelFor(forward.size() + 1, [&](size_t i) {
    if (i > 0) {
      const ForwardProgram& f = options.forward[i - 1];
      forward[i - 1] = BuildForwardGraph(*f.graph, f.name, pass_options);
    } else if (model != nullptr) {
      training = BuildTrainingGraphs(*model, pass_options, options.evaluate);
    }
  });
  std::vector<std::unique_ptr<Graph>> graphs;
  for (auto* graph :
       {&training.train, &training.accumulate, &training.update, &training.evaluate}) {
    if (*graph) graphs.push_back(std::move(*graph));
  }
  for (size_t i = 0; i < forward.size(); ++i) {
    graphs.push_back(std::move(forward[i]));
    ShareShadows(Pointers(graphs));
  }
  for (const auto& graph : graphs) PassManager(StatePasses()).Run(*graph, pass_options);
  if (auto derive = DeriveGraph(Pointers(graphs))) graphs.push_back(std::move(derive));
  return graphs;
}

}  // namespace

CompiledModel Compile(const Graph& model, const OptimizerSpec& optimizer, const Target& target,
                      const CompileOptions& options) {
  CompiledModel out;
  const Stopwatch declaring;
  const PassOptions pass_options = ToPassOptions(options, target, &optimizer);
  std::vector<std::unique_ptr<Graph>> graphs = BuildGraphs(&model, options, pass_options);
  out.pass_seconds = declaring.seconds();
  Finish(model.name(), std::move(graphs), target, options, pass_options, out);
  return out;
}

CompiledModel CompileForward(const std::string& name, const Target& target,
                             const CompileOptions& options) {
  CompiledModel out;
  const Stopwatch declaring;
  const PassOptions pass_options = ToPassOptions(options, target, nullptr);
  std::vector<std::unique_ptr<Graph>> graphs = BuildGraphs(nullptr, options, pass_options);
  out.pass_seconds = declaring.seconds();
  Finish(name, std::move(graphs), target, options, pass_options, out);
  return out;
}

}  // namespace stator
