// Optimizers and schedules against their closed forms, run by the interpreter.
#include "frontend/dsl/optimizer.h"

#include "frontend/dsl/layers.h"
#include "tests/frontend/dsl/dsl_support.h"

#include <cmath>

namespace stator::dsl {
namespace {

double Rate(const Schedule& schedule, int64_t step) {
  Graph g("schedule");
  Builder b(g);
  const Value rate = schedule(b, g.AddInput("step", {kF32, {}}));
  EXPECT_EQ(rate.type(), (Type{kF32, {}}));
  g.AddOutput("lr", rate);
  return Run(g, {{"step", Host({kF32, {}}, {static_cast<double>(step)})}})[0].Get(0);
}

TEST(Schedule, constant) {
  EXPECT_NEAR(Rate(0.1, 0), 0.1, 1e-8);
  EXPECT_NEAR(Rate(0.1, 1000), 0.1, 1e-8);
  const ConstantRate warm{.rate = 1, .warmup = 3};
  EXPECT_NEAR(Rate(warm, 0), 0.25, 1e-7);
  EXPECT_NEAR(Rate(warm, 2), 0.75, 1e-7);
  EXPECT_NEAR(Rate(warm, 3), 1, 1e-7);
}

TEST(Schedule, cosine_is_nanogpts) {
  const Cosine c{.peak = 6e-4, .warmup = 100, .total = 1100, .min = 6e-5};
  for (const int64_t step : {0, 1, 50, 99, 100, 101, 350, 600, 1099, 1100, 5000}) {
    const double r = std::min(1.0, (step - 100) / 1000.0);
    const double expected = step < 100 ? 6e-4 * (step + 1) / 101
                                       : 6e-5 + 0.5 * (1 + std::cos(M_PI * r)) * (6e-4 - 6e-5);
    EXPECT_NEAR(Rate(c, step), expected, 1e-9) << step;
  }
}

TEST(Schedule, linear_decay) {
  const LinearDecay c{.peak = 1, .warmup = 0, .total = 10, .min = 0.2};
  EXPECT_NEAR(Rate(c, 0), 1, 1e-6);
  EXPECT_NEAR(Rate(c, 5), 0.6, 1e-6);
  EXPECT_NEAR(Rate(c, 10), 0.2, 1e-6);
  EXPECT_NEAR(Rate(c, 99), 0.2, 1e-6);
}

TEST(Schedule, warmup_stable_decay) {
  const WarmupStableDecay c{.peak = 1, .warmup = 4, .total = 20, .decay = 5, .min = 0};
  EXPECT_NEAR(Rate(c, 1), 0.4, 1e-6);
  EXPECT_NEAR(Rate(c, 4), 1, 1e-6);
  EXPECT_NEAR(Rate(c, 15), 1, 1e-6);
  EXPECT_NEAR(Rate(c, 17), 0.6, 1e-6);
  EXPECT_NEAR(Rate(c, 25), 0, 1e-6);
}

TEST(Schedule, a_function_of_ones_own) {
  const Schedule s = [](Builder& b, Value step) { return b.Mul(step, 2); };
  EXPECT_EQ(Rate(s, 3), 6);
}

TEST(Schedule, spans_that_cannot_be_are_refused) {
  EXPECT_HAS(ErrorOf([] { Rate(Cosine{.warmup = 10, .total = 10}, 0); }), "warmup 10, total 10");
  EXPECT_HAS(ErrorOf([] { Rate(WarmupStableDecay{.warmup = 8, .total = 10, .decay = 5}, 0); }),
             "decay from 5");
  EXPECT_HAS(ErrorOf([] { Rate(ConstantRate{.warmup = -1}, 0); }), "-1");
}

// Updates one 2-element parameter `steps` times with gradients g_k(t) = (k+1) * (t % 3 - 0.7), and
// returns it.
std::vector<double> Train(const Optimizer& optimizer, int steps) {
  Graph g("update");
  Builder b(g);
  const Value p =
      g.AddState("w", {kF32, {2, 1}}, {{"role", std::string("parameter")}, {"trainable", true}});
  const Value gradient = g.AddInput("gradient", {kF32, {2, 1}});
  const Value t = g.AddInput("t", {kF32, {}});
  const OptimizerSpec spec = optimizer(g);
  const ParameterUpdate u{.name = "w",
                          .parameter = p,
                          .gradient = gradient,
                          .learning_rate = spec.schedule(b, b.Sub(t, 1)),
                          .step = t,
                          .weight_decay = spec.weight_decay("w", p.type())};
  g.SetNextState(p, spec.update(b, u));

  Params params;
  for (const Param& s : g.states()) params[s.name] = stator::Tensor(s.node->type());
  params["w"] = Host({kF32, {2, 1}}, {1, -2});
  for (int step = 1; step <= steps; ++step) {
    const double x = step % 3 - 0.7;
    params["gradient"] = Host({kF32, {2, 1}}, {x, 2 * x});
    params["t"] = Host({kF32, {}}, {static_cast<double>(step)});
    for (const auto& [name, value] : Interpret(g, params).next_states) params[name] = value;
  }
  return {params["w"].Get(0), params["w"].Get(1)};
}

double Gradient(int step, int k) { return (k + 1) * (step % 3 - 0.7); }

void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected) {
  for (int k = 0; k < 2; ++k)
    EXPECT_NEAR(actual[k], expected[k], 2e-6 * std::abs(expected[k])) << k;
}

TEST(AdamW, is_pytorchs) {
  const double lr = 0.01, b1 = 0.9, b2 = 0.999, eps = 1e-8, wd = 0.1;
  for (const int steps : {1, 2, 20}) {
    std::vector<double> p = {1, -2};
    for (int k = 0; k < 2; ++k) {
      double m = 0, v = 0;
      for (int t = 1; t <= steps; ++t) {
        const double g = Gradient(t, k);
        p[k] *= 1 - lr * wd;
        m += (1 - b1) * (g - m);
        v = b2 * v + (1 - b2) * g * g;
        const double denominator = std::sqrt(v) / std::sqrt(1 - std::pow(b2, t)) + eps;
        p[k] -= lr / (1 - std::pow(b1, t)) * m / denominator;
      }
    }
    ExpectNear(Train(AdamW{.learning_rate = lr, .weight_decay = wd}, steps), p);
  }
}

TEST(Sgd, is_pytorchs) {
  for (const bool nesterov : {false, true}) {
    std::vector<double> p = {1, -2};
    for (int k = 0; k < 2; ++k) {
      double m = 0;
      for (int t = 1; t <= 7; ++t) {
        const double g = Gradient(t, k) + 0.1 * p[k];
        m = 0.9 * m + g;
        p[k] -= 0.05 * (nesterov ? g + 0.9 * m : m);
      }
    }
    ExpectNear(
        Train(
            Sgd{.learning_rate = 0.05, .momentum = 0.9, .nesterov = nesterov, .weight_decay = 0.1},
            7),
        p);
  }
  ExpectNear(Train(Sgd{.learning_rate = 0.1}, 1), {1 - 0.1 * 0.3, -2 - 0.1 * 0.6});
}

TEST(Lion, is_the_papers) {
  std::vector<double> p = {1, -2};
  for (int k = 0; k < 2; ++k) {
    double m = 0;
    for (int t = 1; t <= 7; ++t) {
      const double g = Gradient(t, k), d = 0.9 * m + 0.1 * g;
      p[k] = p[k] * (1 - 0.01 * 0.5) - 0.01 * ((d > 0) - (d < 0));
      m = 0.99 * m + 0.01 * g;
    }
  }
  ExpectNear(Train(Lion{.learning_rate = 0.01, .weight_decay = 0.5}, 7), p);
}

TEST(Optimizer, the_rate_follows_the_schedule) {
  const double p = 1 - (0.05 * Gradient(1, 0) + 0.1 * Gradient(2, 0) + 0.05 * Gradient(3, 0));
  EXPECT_NEAR(Train(Sgd{.learning_rate = LinearDecay{.peak = 0.1, .warmup = 1, .total = 3}}, 3)[0],
              p, 1e-6);
}

TEST(Optimizer, moments_are_states_of_the_parameter) {
  Graph g("update");
  Builder b(g);
  const Value p = g.AddState("h.0/w", {kF32, {4}}), zero = b.Constant(0, kF32, {4});
  AdamW{}(g).update(b, {"h.0/w", p, zero, b.Constant(1, kF32), b.Constant(1, kF32)});
  for (const char* name : {"h.0/w.m", "h.0/w.v"}) {
    const Value moment = g.FindState(name);
    ASSERT_TRUE(moment) << name;
    EXPECT_EQ(moment.type(), p.type());
    EXPECT_EQ(moment.node->view().Str("role"), "moment");
    EXPECT_TRUE(g.FindNextState(moment.node)) << name;
  }
}

TEST(Optimizer, groups_decide_decay_rate_and_freezing) {
  Model m("t");
  const Tensor x = m.Input("x", {2, 3}, kF32);
  const Tensor y = Linear(m.scope() / "a", x, 3);
  const Tensor z = Linear(m.scope() / "b", y, 3);
  LayerNorm(m.scope() / "norm", z);
  const OptimizerSpec spec = AdamW{.weight_decay = 0.1,
                                   .clip_norm = 1,
                                   .groups = {{.pattern = "b/w", .weight_decay = 0.5},
                                              {.pattern = "b/*", .lr_factor = 2},
                                              {.pattern = "norm/*", .frozen = true}}}(m.graph());
  const auto decay = [&](const char* name) {
    return spec.weight_decay(name, m.FindParameter(name).value().type());
  };
  const auto factor = [&](const char* name) {
    return spec.lr_factor(name, m.FindParameter(name).value().type());
  };
  EXPECT_EQ(decay("a/w"), 0.1);
  EXPECT_EQ(decay("a/b"), 0);  // one axis
  EXPECT_EQ(decay("b/w"), 0.5);
  EXPECT_EQ(decay("b/b"), 0);
  EXPECT_EQ(factor("a/w"), 1);
  EXPECT_EQ(factor("b/w"), 1);  // the first group that matches holds
  EXPECT_EQ(factor("b/b"), 2);
  EXPECT_EQ(spec.clip_norm, 1);
  EXPECT_EQ(m.FindParameter("b/b").value().node->view().Str("group"), "b/*");
  EXPECT_EQ(m.FindParameter("a/w").value().node->view().Str("group"), "");
  EXPECT_FALSE(m.FindParameter("norm/w").value().node->view().Bool("trainable"));
  EXPECT_TRUE(m.FindParameter("a/w").value().node->view().Bool("trainable"));
  const AdamW typo{.groups = {{.pattern = "c/*"}}};
  EXPECT_HAS(ErrorOf([&] { typo(m.graph()); }), "\"c/*\" matches no parameter");
}

TEST(Optimizer, options_that_cannot_be_are_refused) {
  Graph g("t");
  EXPECT_HAS(ErrorOf([&] { AdamW{.beta1 = 1}(g); }), "beta1 must be in [0, 1), got 1");
  EXPECT_HAS(ErrorOf([&] { Lion{.beta2 = -0.1}(g); }), "beta2");
  EXPECT_HAS(ErrorOf([&] { Sgd{.nesterov = true}(g); }), "nesterov");
  EXPECT_HAS(ErrorOf([&] { Sgd{.weight_decay = -1}(g); }), "-1");
  EXPECT_HAS(ErrorOf([&] { Sgd{.clip_norm = -1}(g); }), "-1");
}

}  // namespace
}  // namespace stator::dsl
