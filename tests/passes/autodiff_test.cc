// Gradients against central differences, in f64 so that the comparison is sharp.
#include "passes/autodiff.h"

#include "ir/base/error.h"
#include "ir/builder.h"
#include "ir/facts.h"
#include "ir/interpreter.h"
#include "tests/passes/random_inputs.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stator::testing {
namespace {

// Adds d(loss)/d(every state) to the graph, whose only output is the loss, and checks them all.
void ExpectGradientsMatch(Graph& graph) {
  const Value loss = graph.outputs()[0].value;
  Values states;
  for (const Param& p : graph.states()) states.push_back(p.node->result());
  const std::unique_ptr<Graph> forward = graph.Clone();
  const Values gradients = Gradients(graph, loss, states);
  for (size_t i = 0; i < states.size(); ++i) {
    ASSERT_TRUE(gradients[i]) << graph.states()[i].name;
    graph.AddOutput(graph.states()[i].name, gradients[i]);
  }
  auto params = RandomParams(graph);
  const InterpreterResult analytic = Interpret(graph, params);
  constexpr double kStep = 1e-5;
  for (size_t i = 0; i < states.size(); ++i) {
    const std::string& name = graph.states()[i].name;
    Tensor& t = params.at(name);
    for (int64_t k = 0; k < t.size(); ++k) {
      const double x = t.f[k];
      t.f[k] = x + kStep;
      const double above = Interpret(*forward, params).outputs[0].f[0];
      t.f[k] = x - kStep;
      const double below = Interpret(*forward, params).outputs[0].f[0];
      t.f[k] = x;
      const double numeric = (above - below) / (2 * kStep);
      EXPECT_NEAR(analytic.outputs[i + 1].f[k], numeric, 1e-7 * std::max(1.0, std::abs(numeric)))
          << name << "[" << k << "]";
    }
  }
}

class AutodiffTest : public ::testing::Test {
 protected:
  Value State(const std::string& name, const Dims& shape) {
    return graph_.AddState(name, {DType::kF64, shape}, {{"trainable", true}});
  }
  void Loss(Value v) { graph_.AddOutput("loss", b_.Sum(b_.Mul(v, b_.Tanh(v)), Dims{}, true)); }

  Graph graph_{"f"};
  Builder b_{graph_};
};

TEST_F(AutodiffTest, repeated_use_of_one_value) {
  const Value x = State("x", {2, 3});
  Loss(b_.Add(b_.Mul(x, x), b_.Mul(b_.Exp(x), x)));
  ExpectGradientsMatch(graph_);
}

TEST_F(AutodiffTest, broadcasting_and_size_1_axes) {
  const Value x = State("x", {2, 1, 3}), y = State("y", {4, 1}), z = State("z", {});
  Loss(b_.Mul(b_.Add(x, y), z));
  ExpectGradientsMatch(graph_);
}

TEST_F(AutodiffTest, slices_side_by_side_and_overlapping) {
  const Value x = State("x", {2, 9});
  const Value a = b_.SliceAxis(x, 1, 0, 3), b = b_.SliceAxis(x, 1, 4, 7);  // 3, 7 and 8 unread
  const Value y = State("y", {5});
  const Value c = b_.SliceAxis(y, 0, 0, 3), d = b_.SliceAxis(y, 0, 2, 5);
  const Value z = State("z", {6});
  const Value e = b_.SliceAxis(z, 0, 0, 6, 2), f = b_.SliceAxis(z, 0, 1, 6, 2);
  Loss(b_.Mul(b_.Mul(a, b), b_.Mul(b_.Mul(c, d), b_.Mul(e, f))));
  ExpectGradientsMatch(graph_);
}

TEST_F(AutodiffTest, tied_weights) {
  const Value w = State("w", {5, 3});
  const Value i = graph_.AddInput("i", {DType::kI32, {4}});
  const Value h = b_.Gather(w, i);  // repeated rows: indices are 0 to 2
  Loss(b_.MatMul(b_.Tanh(h), w, false, true));
  ExpectGradientsMatch(graph_);
}

TEST_F(AutodiffTest, two_layers) {
  const Value x = graph_.AddInput("x", {DType::kF64, {4, 3}});
  const Value v = State("v", {3, 5}), b = State("b", {5}), w = State("w", {5, 2});
  const Value h = b_.Tanh(b_.Add(b_.MatMul(x, v), b));
  Loss(b_.Create1("softmax", {b_.MatMul(h, w)}));
  ExpectGradientsMatch(graph_);
}

// Where x is large the slope is 0 or 1, whatever overflows on the way there.
TEST_F(AutodiffTest, activations_far_from_zero) {
  const std::vector<double> far = {-1e18, -3e13, -1e5, -200, 200, 1e5, 3e13, 1e18};
  for (const char* kind : {"none", "tanh"}) {
    Graph graph("f");
    Builder b(graph);
    const Value x = graph.AddState("x", {DType::kF32, {8}}, {{"trainable", true}});
    const Value y = b.Create1("gelu", {x}, {{"approximate", std::string(kind)}});
    graph.AddOutput("dx", Gradients(graph, b.Sum(y, Dims{}, true), {x})[0]);
    std::map<std::string, Tensor> params;
    params.emplace("x", Tensor(Type{DType::kF32, {8}}));
    for (int k = 0; k < 8; ++k) params.at("x").Set(k, far[static_cast<size_t>(k)]);
    const InterpreterResult r = Interpret(graph, params);
    for (int k = 0; k < 8; ++k) {
      EXPECT_EQ(r.outputs[0].f[k], far[static_cast<size_t>(k)] > 0 ? 1 : 0) << kind << " " << k;
    }
  }
}

TEST_F(AutodiffTest, gradient_by_an_intermediate_value) {
  const Value x = State("x", {3});
  const Value y = b_.Exp(x);
  const Value loss = b_.Sum(b_.Mul(y, y), Dims{}, true);
  const Values g = Gradients(graph_, loss, {y, x});
  graph_.AddOutput("dy", g[0]);
  graph_.AddOutput("dx", g[1]);
  const auto params = RandomParams(graph_);
  const InterpreterResult r = Interpret(graph_, params);
  for (int k = 0; k < 3; ++k) {
    const double e = std::exp(params.at("x").f[k]);
    EXPECT_DOUBLE_EQ(r.outputs[0].f[k], 2 * e);
    EXPECT_DOUBLE_EQ(r.outputs[1].f[k], 2 * e * e);
  }
}

TEST_F(AutodiffTest, seed_scales) {
  const Value x = State("x", {});
  const Value loss = b_.Mul(x, x);
  const Values g = Gradients(graph_, loss, {x}, b_.Constant(3, DType::kF64));
  graph_.AddOutput("g", g[0]);
  const auto params = RandomParams(graph_);
  EXPECT_DOUBLE_EQ(Interpret(graph_, params).outputs[0].f[0], 6 * params.at("x").f[0]);
}

TEST_F(AutodiffTest, paths_through_integers_and_steps_give_none) {
  const Value x = State("x", {3}), y = State("y", {3});
  const Value rounded = b_.Cast(b_.Cast(x, DType::kI32), DType::kF64);
  const Value loss = b_.Sum(b_.Mul(rounded, y), Dims{}, true);
  const Values g = Gradients(graph_, loss, {x, y});
  EXPECT_FALSE(g[0]);
  EXPECT_TRUE(g[1]);
}

TEST_F(AutodiffTest, second_order) {
  const Value x = State("x", {2, 3});
  const Value loss = b_.Sum(b_.Mul(b_.Exp(x), x), Dims{}, true);
  const Values g = Gradients(graph_, loss, {x});
  Loss(g[0]);
  ExpectGradientsMatch(graph_);
}

TEST_F(AutodiffTest, composite_without_a_gradient_goes_through_its_definition) {
  OpRegistry ops;
  for (const OpDef* def : DefaultOps().All()) ops.Add(*def);
  ops.Add({.name = "cube",
           .op_class = OpClass::kComposite,
           .operands = {{"x", TypeSet::kAnyFloat}},
           .infer = [](const OpView& op) { return Types{op.type(0)}; },
           .expand =
               [](Builder& b, const OpView& op) {
                 return Values{b.Mul(op.in(0), b.Mul(op.in(0), op.in(0)))};
               }});
  Graph graph("f", ops);
  Builder b(graph);
  const Value x = graph.AddState("x", {DType::kF64, {3}}, {{"trainable", true}});
  graph.AddOutput("loss", b.Sum(b.Create1("cube", {x}), Dims{}, true));
  ExpectGradientsMatch(graph);
}

TEST_F(AutodiffTest, op_without_a_gradient_is_an_error) {
  OpRegistry ops;
  for (const OpDef* def : DefaultOps().All()) ops.Add(*def);
  ops.Add({.name = "mine",
           .op_class = OpClass::kCustom,
           .operands = {{"x", TypeSet::kAnyFloat}},
           .infer = [](const OpView& op) { return Types{op.type(0)}; }});
  Graph graph("f", ops);
  Builder b(graph);
  b.SetScope("h.0");
  const Value x = graph.AddState("x", {DType::kF64, {3}});
  const Value loss = b.Sum(b.Create1("mine", {x}), Dims{}, true);
  try {
    Gradients(graph, loss, {x});
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "mine (h.0): the op has no gradient");
  }
}

}  // namespace
}  // namespace stator::testing
