// apply-optimizer: turns the gradients of autodiff (outputs grad/<name>, f32) into next states.
//
//   g      = the gradient, divided by the loss scale where f16 needs one (analysis/loss_scaling.h)
//   norm   = sqrt(sum of all g^2): one f32 sum a parameter, these added pairwise in state order
//   finite = is_finite(norm)
//   clip   = min(1, clip_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_
//   next   = select(finite, update(parameter, clip * g, lr, step + 1), parameter)
//
// Where the optimizer is adjustable, lr, the weight decay and clip_norm are settings: states that
// the host may change between updates, at first a factor of 1 and the declared norm.
//
// Parameters, moments, the step counter and states that the model itself writes: all keep their
// contents when the norm is not finite, so that one bad batch does no harm. The gradient outputs
// are consumed; outputs grad_norm, lr and finite are added. Nodes get phase="update", which keeps
// them in f32 under mixed precision.
#include "ir/base/error.h"
#include "ir/builder.h"
#include "ir/facts.h"
#include "ir/training.h"
#include "passes/analysis/loss_scaling.h"
#include "passes/passes.h"

#include <algorithm>

namespace stator {
namespace {

struct Gradient {
  std::string parameter;
  Value value;
};

// Removes the grad/ outputs and returns them in the order of the parameters' states.
std::vector<Gradient> TakeGradients(Graph& graph) {
  std::vector<Gradient> gradients;
  for (const Param& p : graph.states()) {
    const std::string name = StrCat(training::kGradPrefix, p.name);
    for (const Output& o : graph.outputs()) {
      if (o.name == name) gradients.push_back({p.name, o.value});
    }
  }
  graph.RemoveOutputs([](const Output& o) { return o.name.starts_with(training::kGradPrefix); });
  return gradients;
}

// Neighbours first, so that the order depends on the count alone. Zero for no terms.
Value SumPairwise(Builder& b, Values terms) {
  if (terms.empty()) return b.Constant(0, DType::kF32);
  while (terms.size() > 1) {
    Values sums;
    for (size_t i = 0; i + 1 < terms.size(); i += 2) sums.push_back(b.Add(terms[i], terms[i + 1]));
    if (terms.size() % 2 == 1) sums.push_back(terms.back());
    terms = std::move(sums);
  }
  return terms[0];
}

Value StepState(Graph& graph) {
  const Value step = graph.FindState(training::kStep);
  if (!step) {
    return graph.AddState(std::string(training::kStep), {DType::kI64, {}},
                          {{"role", std::string("counter")}});
  }
  if (step.type() != Type{DType::kI64, {}}) {
    Fail(ErrorCode::kInvalidArgument, "state ", training::kStep, " must be i64[], got ",
         step.type().ToString());
  }
  return step;
}

Value Setting(Graph& graph, std::string_view name, double first) {
  return graph.AddState(
      std::string(name), {DType::kF32, {}},
      {{"role", std::string(training::kSettingRole)}, {"init", StrCat("constant(", first, ")")}});
}

void UpdateParameters(Builder& b, const OptimizerSpec& spec, const std::vector<Gradient>& gradients,
                      Value clip, Value rate, Value decay_factor, Value next_step) {
  Graph& graph = b.graph();
  const Value step = b.Cast(next_step, DType::kF32);
  for (const Gradient& g : gradients) {
    const Value parameter = graph.FindState(g.parameter);
    const Type& type = parameter.type();
    if (type.dtype != DType::kF32) {
      Fail(ErrorCode::kInvalidArgument, "parameter ", g.parameter, " is ", type.ToString(),
           "; the optimizer updates f32 masters");
    }
    b.SetScope(g.parameter);
    const double factor = spec.lr_factor ? spec.lr_factor(g.parameter, type) : 1;
    ParameterUpdate update{.name = g.parameter,
                           .parameter = parameter,
                           .gradient = clip ? b.Mul(g.value, clip) : g.value,
                           .learning_rate = factor == 1 ? rate : b.Mul(rate, factor),
                           .step = step,
                           .decay_factor = decay_factor};
    if (spec.weight_decay) update.weight_decay = spec.weight_decay(g.parameter, type);
    graph.SetNextState(parameter, spec.update(b, update));
  }
}

}  // namespace

void ApplyOptimizer(Graph& graph, const PassOptions& options) {
  if (options.optimizer == nullptr) {
    Fail(ErrorCode::kInvalidArgument, "apply-optimizer: no optimizer is given");
  }
  const OptimizerSpec& spec = *options.optimizer;
  STATOR_CHECK(spec.schedule && spec.update, "an optimizer needs a schedule and an update");
  std::vector<Gradient> gradients = TakeGradients(graph);

  Builder b(graph);
  b.SetScope("optimizer");
  b.default_facts()[std::string(fact::kPhase)] = std::string("update");
  Value scale;
  if (ScalesLoss(options)) {
    scale = LossScale(graph, options);
    const Value unscale = b.Div(b.Constant(1, DType::kF32), scale);
    for (Gradient& g : gradients) g.value = b.Mul(g.value, unscale);
  }
  Values squares;
  for (const Gradient& g : gradients) {
    squares.push_back(b.Sum(b.Mul(g.value, g.value), Dims{}, /*drop=*/true));
  }
  const Value norm = b.Sqrt(SumPairwise(b, std::move(squares)));
  const Value finite = b.Create1("is_finite", {norm});
  Value clip;
  if (spec.clip_norm > 0) {
    const Value above_zero = b.Add(norm, 1e-6);
    const Value limit = spec.adjustable ? Setting(graph, training::kClipNorm, spec.clip_norm)
                                        : b.Constant(spec.clip_norm, DType::kF32);
    const Value ratio = b.Div(limit, above_zero);
    clip = b.Min2(ratio, b.Constant(1, DType::kF32));
  }
  const Value step = StepState(graph);
  const Value next_step = b.Add(step, b.Constant(1, DType::kI64));
  Value rate = spec.schedule(b, b.Cast(step, DType::kF32)), decay_factor;
  if (spec.adjustable) {
    rate = b.Mul(rate, Setting(graph, training::kRateFactor, 1));
    decay_factor = Setting(graph, training::kDecayFactor, 1);
  }
  UpdateParameters(b, spec, gradients, clip, rate, decay_factor, next_step);
  graph.SetNextState(step, next_step);

  if (spec.skip_non_finite || scale) {
    for (size_t i = 0; i < graph.next_states().size(); ++i) {
      const NextState next = graph.next_states()[i];
      b.SetScope(graph.ParamName(next.state));
      graph.SetNextState(next.state->result(), b.Select(finite, next.value, next.state->result()));
    }
  }
  if (scale) AdjustLossScale(b, scale, finite, options);
  graph.AddOutput(std::string(training::kGradNorm), norm);
  graph.AddOutput(std::string(training::kLearningRate), rate);
  graph.AddOutput(std::string(training::kFinite), finite);
  graph.EraseDead();
}

}  // namespace stator
