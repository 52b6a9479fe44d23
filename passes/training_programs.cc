#include "passes/training_programs.h"

#include "ir/base/error.h"
#include "ir/base/parallel.h"
#include "ir/builder.h"
#include "ir/facts.h"
#include "ir/training.h"
#include "passes/analysis/shadows.h"
#include "passes/passes.h"
#include "passes/pipeline.h"

namespace stator {
namespace {

const AttrMap kUpdatePhase = {{std::string(fact::kPhase), std::string("update")}};

void RunPasses(const std::vector<Pass>& passes, Graph& graph, const PassOptions& options) {
  PassManager(passes).Run(graph, options);
}

Value FindOutput(const Graph& graph, std::string_view name) {
  for (const Output& o : graph.outputs()) {
    if (o.name == name) return o.value;
  }
  return {};
}

// By what records call the rate: `dropout` on attention, `rate` on dropout itself.
void TurnDropoutOff(Graph& graph) {
  for (Node* n : graph.Nodes()) {
    for (const char* name : {"rate", "dropout"}) {
      const AttrDef* attr = n->op().FindAttr(name);
      if (attr != nullptr && std::holds_alternative<double>(attr->value)) n->SetAttr(name, 0.0);
    }
  }
}

// Random streams are keyed by (seed, step, stream id). The micro-batches of one step must not draw
// the same numbers, so for them `step` reads step * micro_batches + micro_batch.
void NumberMicroBatches(Graph& graph, int micro_batches) {
  const Value step = graph.FindState(training::kStep);
  if (!step) return;
  std::vector<Use> draws;
  for (const Use& use : step.node->uses()) {
    if (use.node->op().FindOperand("step") == use.operand) draws.push_back(use);
  }
  if (draws.empty()) return;
  const Value micro = graph.AddState(std::string(training::kMicroBatch), {DType::kI64, {}},
                                     {{"role", std::string("counter")}});
  Builder b(graph, graph.first());
  const Value k = b.Constant(micro_batches, DType::kI64);
  const Value draw = b.Add(b.Mul(step, k), micro);
  for (const Use& use : draws) graph.SetOperand(use.node, use.operand, draw);
  b.SetInsertBefore(nullptr);
  b.default_facts() = kUpdatePhase;
  graph.SetNextState(micro, b.Add(micro, b.Constant(1, DType::kI64)));
}

// state += value, with the state declared here.
void AddToState(Builder& b, const std::string& name, Value value) {
  const Value state = b.graph().AddState(name, value.type(), {{"role", std::string("gradient")}});
  b.graph().SetNextState(state, b.Add(state, value));
}

std::unique_ptr<Graph> AccumulateGraph(const Graph& model, const PassOptions& options) {
  std::unique_ptr<Graph> graph = model.Clone();
  graph->set_name("accumulate");
  NumberMicroBatches(*graph, options.micro_batches);
  Autodiff(*graph, options);
  MergeLossHead(*graph, options);
  Builder b(*graph);
  b.default_facts() = kUpdatePhase;
  const std::vector<Output> outputs = graph->outputs();
  graph->RemoveOutputs([](const Output& o) { return o.name.starts_with(training::kGradPrefix); });
  for (const Output& o : outputs) {
    if (o.name.starts_with(training::kGradPrefix)) AddToState(b, o.name, o.value);
  }
  const Value loss = FindOutput(*graph, training::kLoss);
  Value weight = FindOutput(*graph, training::kWeight);
  if (!weight) weight = b.Constant(1, DType::kF32);
  AddToState(b, std::string(training::kLossSum), b.Mul(loss, weight));
  AddToState(b, std::string(training::kWeightSum), weight);
  return graph;
}

std::unique_ptr<Graph> UpdateGraph(const Graph& accumulate, const PassOptions& options) {
  auto graph = std::make_unique<Graph>("update", accumulate.ops());
  Builder b(*graph);
  b.default_facts() = kUpdatePhase;
  const auto declare = [&](const std::string& name) {
    const Value v = accumulate.FindState(name);
    return graph->AddState(name, v.type(), v.node->attrs());
  };
  for (const Param& p : accumulate.states()) {
    if (p.node->view().Bool("trainable")) declare(p.name);
  }
  const Value weight = declare(std::string(training::kWeightSum));
  const Value loss_sum = declare(std::string(training::kLossSum));
  // Without a single token every sum is 0, and so are loss and gradients.
  const Value divisor =
      b.Select(b.Eq(weight, b.ConstantLike(0, weight)), b.ConstantLike(1, weight), weight);
  graph->AddOutput(std::string(training::kLoss), b.Div(loss_sum, divisor));
  graph->AddOutput(std::string(training::kWeight), weight);
  Values consumed = {weight, loss_sum};
  for (const Param& p : accumulate.states()) {
    if (!p.node->view().Bool("trainable")) continue;
    const std::string name = StrCat(training::kGradPrefix, p.name);
    consumed.push_back(declare(name));
    graph->AddOutput(name, b.Div(consumed.back(), divisor));
  }
  for (const std::string_view name : {training::kStep, training::kLossScale}) {
    if (accumulate.FindState(name)) declare(std::string(name));
  }
  ApplyOptimizer(*graph, options);
  // After the optimizer, whose writes depend on the norm: a non-finite sum must go as well.
  if (accumulate.FindState(training::kMicroBatch)) {
    consumed.push_back(declare(std::string(training::kMicroBatch)));
  }
  for (const Value& v : consumed) graph->SetNextState(v, b.ConstantLike(0, v));
  return graph;
}

}  // namespace

std::vector<Graph*> TrainingGraphs::all() const {
  std::vector<Graph*> graphs;
  for (const auto* g : {&train, &accumulate, &update, &evaluate}) {
    if (*g) graphs.push_back(g->get());
  }
  return graphs;
}

std::unique_ptr<Graph> BuildForwardGraph(const Graph& model, const std::string& name,
                                         const PassOptions& options) {
  std::unique_ptr<Graph> graph = model.Clone();
  graph->set_name(name);
  TurnDropoutOff(*graph);
  RunPasses(ModelPasses(), *graph, options);
  RunPasses(PrecisionPasses(), *graph, options);
  return graph;
}

TrainingGraphs BuildTrainingGraphs(const Graph& model, const PassOptions& options,
                                   const Graph* evaluate_model) {
  TrainingGraphs graphs;
  const auto step = [&] {
    const std::unique_ptr<Graph> simple = model.Clone();
    RunPasses(ModelPasses(), *simple, options);
    if (options.micro_batches <= 1) {
      graphs.train = simple->Clone();
      graphs.train->set_name("train");
      RunPasses(StepPasses(), *graphs.train, options);
      RunPasses(PrecisionPasses(), *graphs.train, options);
    } else {
      graphs.accumulate = AccumulateGraph(*simple, options);
      graphs.update = UpdateGraph(*graphs.accumulate, options);
      RunPasses(PrecisionPasses(), *graphs.accumulate, options);
      RunPasses(PrecisionPasses(), *graphs.update, options);
    }
  };
  const auto evaluate = [&] {
    const std::unique_ptr<Graph> forward = evaluate_model ? evaluate_model->Clone() : model.Clone();
    forward->ClearNextStates();
    graphs.evaluate = BuildForwardGraph(*forward, "evaluate", options);
  };
  ParallelFor(2, [&](size_t i) { i == 0 ? step() : evaluate(); });
  ShareShadows(graphs.all());
  return graphs;
}

void ShareShadows(const std::vector<Graph*>& graphs) {
  for (const Graph* from : graphs) {
    for (const Param& p : from->states()) {
      if (!IsShadow(*p.node)) continue;
      for (Graph* to : graphs) {
        const Value parameter = to->FindState(ShadowedName(p.name));
        if (parameter) ShadowOf(*to, parameter, p.node->type().dtype);
      }
    }
  }
  for (Graph* graph : graphs) UpdateShadows(*graph);
}

}  // namespace stator
