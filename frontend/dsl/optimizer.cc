#include "frontend/dsl/optimizer.h"

#include "ir/base/error.h"

#include <cmath>

namespace stator::dsl {
namespace {

const ParameterGroup* FindGroup(const std::vector<ParameterGroup>& groups, std::string_view name) {
  for (const ParameterGroup& g : groups) {
    if (GlobMatch(g.pattern, name)) return &g;
  }
  return nullptr;
}

void CheckBeta(const char* optimizer, const char* name, double beta) {
  if (beta >= 0 && beta < 1) return;
  Fail(ErrorCode::kInvalidArgument, optimizer, ": ", name, " must be in [0, 1), got ", beta);
}

// 1 - beta^t, without the cancellation that f32 would suffer for beta near 1: with x = t*ln(beta),
// 1 - e^x = -2 tanh(x/2) / (1 - tanh(x/2)).
Value BiasCorrection(Builder& b, double beta, Value t) {
  if (beta == 0) return b.ConstantLike(1, t);
  const Value th = b.Tanh(b.Mul(t, std::log(beta) / 2));
  return b.Div(b.Mul(th, -2), b.RSub(1, th));
}

// x * wd
Value TimesDecay(Builder& b, const ParameterUpdate& u, Value x) {
  return u.decay_factor ? b.Mul(x, b.Mul(u.decay_factor, u.weight_decay))
                        : b.Mul(x, u.weight_decay);
}

// p * (1 - lr*wd)
Value Decayed(Builder& b, const ParameterUpdate& u) {
  if (u.weight_decay == 0) return u.parameter;
  return b.Mul(u.parameter, b.RSub(1, TimesDecay(b, u, u.learning_rate)));
}

// beta*m + (1-beta)*g
Value Average(Builder& b, double beta, Value m, Value g) {
  return b.Add(b.Mul(m, beta), b.Mul(g, 1 - beta));
}

}  // namespace

Value AddMoment(Builder& b, const ParameterUpdate& u, const std::string& name) {
  return b.graph().AddState(StrCat(u.name, '.', name), u.parameter.type(),
                            {{"role", std::string("moment")}});
}

OptimizerSpec MakeSpec(Graph& graph, const Schedule& learning_rate, double weight_decay,
                       double clip_norm, const std::vector<ParameterGroup>& groups) {
  if (!(weight_decay >= 0)) {
    Fail(ErrorCode::kInvalidArgument, "weight decay must not be negative, got ", weight_decay);
  }
  if (!(clip_norm >= 0)) {
    Fail(ErrorCode::kInvalidArgument, "clip norm must not be negative, got ", clip_norm);
  }
  std::vector<bool> matched(groups.size());
  for (const Param& p : graph.states()) {
    if (p.node->view().Str("role") != "parameter") continue;
    for (size_t i = 0; i < groups.size(); ++i) {
      if (GlobMatch(groups[i].pattern, p.name)) matched[i] = true;
    }
    const ParameterGroup* group = FindGroup(groups, p.name);
    if (group == nullptr) continue;
    p.node->SetAttr("group", group->pattern);
    if (group->frozen) p.node->SetAttr("trainable", false);
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    if (!matched[i]) {
      Fail(ErrorCode::kInvalidArgument, "optimizer group \"", groups[i].pattern,
           "\" matches no parameter");
    }
  }
  OptimizerSpec spec;
  spec.schedule = learning_rate;
  spec.clip_norm = clip_norm;
  spec.weight_decay = [=](const std::string& name, const Type& type) {
    const ParameterGroup* group = FindGroup(groups, name);
    if (group != nullptr && group->weight_decay) return *group->weight_decay;
    return type.rank() >= 2 ? weight_decay : 0.0;
  };
  spec.lr_factor = [=](const std::string& name, const Type&) {
    const ParameterGroup* group = FindGroup(groups, name);
    return group == nullptr ? 1.0 : group->lr_factor;
  };
  return spec;
}

OptimizerSpec Sgd::operator()(Graph& graph) const {
  if (!(momentum >= 0)) {
    Fail(ErrorCode::kInvalidArgument, "sgd: momentum must not be negative, got ", momentum);
  }
  if (nesterov && momentum == 0) {
    Fail(ErrorCode::kInvalidArgument, "sgd: nesterov needs a momentum above 0");
  }
  OptimizerSpec spec = MakeSpec(graph, learning_rate, weight_decay, clip_norm, groups);
  spec.adjustable = adjustable;
  spec.update = [momentum = momentum, nesterov = nesterov](Builder& b, const ParameterUpdate& u) {
    Value g = u.gradient;
    if (u.weight_decay != 0) g = b.Add(g, TimesDecay(b, u, u.parameter));
    if (momentum != 0) {
      const Value m = AddMoment(b, u, "m");
      const Value next = b.Add(b.Mul(m, momentum), g);
      b.graph().SetNextState(m, next);
      g = nesterov ? b.Add(g, b.Mul(next, momentum)) : next;
    }
    return b.Sub(u.parameter, b.Mul(g, u.learning_rate));
  };
  return spec;
}

OptimizerSpec AdamW::operator()(Graph& graph) const {
  CheckBeta("adamw", "beta1", beta1);
  CheckBeta("adamw", "beta2", beta2);
  OptimizerSpec spec = MakeSpec(graph, learning_rate, weight_decay, clip_norm, groups);
  spec.adjustable = adjustable;
  spec.update = [b1 = beta1, b2 = beta2, eps = eps](Builder& b, const ParameterUpdate& u) {
    const Value m = AddMoment(b, u, "m"), v = AddMoment(b, u, "v");
    const Value g = u.gradient;
    const Value decayed = Decayed(b, u);
    const Value next_m = b.Add(m, b.Mul(b.Sub(g, m), 1 - b1));
    const Value next_v = Average(b, b2, v, b.Mul(g, g));
    b.graph().SetNextState(m, next_m);
    b.graph().SetNextState(v, next_v);
    const Value rate = b.Div(u.learning_rate, BiasCorrection(b, b1, u.step));
    const Value root = b.Sqrt(BiasCorrection(b, b2, u.step));
    const Value denominator = b.Add(b.Div(b.Sqrt(next_v), root), eps);
    return b.Sub(decayed, b.Mul(b.Div(next_m, denominator), rate));
  };
  return spec;
}

OptimizerSpec Lion::operator()(Graph& graph) const {
  CheckBeta("lion", "beta1", beta1);
  CheckBeta("lion", "beta2", beta2);
  OptimizerSpec spec = MakeSpec(graph, learning_rate, weight_decay, clip_norm, groups);
  spec.adjustable = adjustable;
  spec.update = [b1 = beta1, b2 = beta2](Builder& b, const ParameterUpdate& u) {
    const Value m = AddMoment(b, u, "m");
    const Value g = u.gradient;
    const Value decayed = Decayed(b, u);
    const Value direction = b.Elementwise("sign", {Average(b, b1, m, g)});
    b.graph().SetNextState(m, Average(b, b2, m, g));
    return b.Sub(decayed, b.Mul(direction, u.learning_rate));
  };
  return spec;
}

}  // namespace stator::dsl
