// Scopes, parameters, states and outputs of a model.
#include "frontend/dsl/model.h"

#include "frontend/dsl/layers.h"
#include "frontend/dsl/loss.h"
#include "tests/frontend/dsl/dsl_support.h"

namespace stator::dsl {
namespace {

TEST(Model, parameters_are_states_named_by_path) {
  Model m("t");
  const Scope s = m.scope() / "h.3" / "attn";
  const Tensor w = (s / "qkv").Parameter("w", {6, 2}, "normal(0.02)");
  const Node* node = w.value().node;
  EXPECT_EQ(m.graph().ParamName(node), "h.3/attn/qkv/w");
  EXPECT_EQ(node->view().Str("role"), "parameter");
  EXPECT_EQ(node->view().Str("init"), "normal(0.02)");
  EXPECT_TRUE(node->view().Bool("trainable"));
  const Tensor b = m.scope().Parameter("b", {2}, "zeros", {.trainable = false, .dtype = kBF16});
  EXPECT_FALSE(b.value().node->view().Bool("trainable"));
  EXPECT_EQ(b.dtype(), kBF16);
  EXPECT_EQ(m.NumParameters(), 14);
  EXPECT_EQ(m.FindParameter("h.3/attn/qkv/w").value(), w.value());
  EXPECT_EQ(m.FindParameter("h.3/attn/qkv/w").scope().path(), "h.3/attn/qkv");
}

TEST(Model, asking_twice_for_a_parameter_is_an_error) {
  Model m("t");
  const Scope s = m.scope() / "mlp";
  s.Parameter("w", {2}, "zeros");
  const int line = __LINE__ + 1;
  const std::string e = ErrorOf([&] { s.Parameter("w", {2}, "zeros"); });
  EXPECT_HAS(e, "parameter mlp/w (mlp): already declared; to share it, pass its Tensor on");
  EXPECT_HAS(e, StrCat("model_test.cc:", line));
}

TEST(Model, a_layers_error_names_the_users_line_that_opened_its_scope) {
  Model m("t");
  const Tensor x = m.Input("x", {2, 3}, kF32);
  const int line = __LINE__ + 1;
  const Scope fc = m.scope() / "fc";
  Linear(fc, x, 4);
  EXPECT_HAS(ErrorOf([&] { Linear(fc, x, 4); }),
             StrCat("parameter fc/w (fc): already declared; to share it, pass its Tensor on",
                    " at model_test.cc:", line));
}

TEST(Model, names_and_initializers_are_checked) {
  Model m("t");
  EXPECT_HAS(ErrorOf([&] { m.scope() / "a b"; }), "\"a b\"");
  EXPECT_HAS(ErrorOf([&] { m.scope() / ""; }), "scope \"\"");
  EXPECT_HAS(ErrorOf([&] { m.scope().Parameter("w", {2}, "normal"); }), "initializer \"normal\"");
  EXPECT_HAS(ErrorOf([&] { m.scope().Parameter("w", {-2}, "zeros"); }), "[-2]");
  m.Input("x", {2}, kF32);
  EXPECT_HAS(ErrorOf([&] { m.Input("x", {2}, kF32); }), "input x: already declared");
}

TEST(Model, seed_and_step_are_states_on_demand) {
  Model m("t");
  EXPECT_TRUE(m.graph().states().empty());
  EXPECT_EQ(m.Seed().value(), m.Seed().value());
  EXPECT_EQ(m.Seed().value().type(), (Type{kU32, {2}}));
  EXPECT_EQ(m.Step().value().type(), (Type{kI64, {}}));
  EXPECT_EQ(m.Step().value(), m.graph().FindState("step"));
  EXPECT_EQ(m.NumParameters(), 0);
}

TEST(Model, streams_differ_by_scope_and_by_turn_but_not_by_run) {
  Model a("t"), b("t");
  const int64_t first = a.NewStream(a.scope() / "drop");
  EXPECT_NE(first, a.NewStream(a.scope() / "drop"));
  EXPECT_NE(first, a.NewStream(a.scope() / "other"));
  EXPECT_EQ(first, b.NewStream(b.scope() / "drop"));
  EXPECT_GE(first, 0);
}

TEST(Model, freeze_by_pattern) {
  Model m("t");
  const Tensor x = m.Input("x", {2, 3}, kF32);
  const Tensor y = Linear(m.scope() / "a", x, 3);
  Linear(m.scope() / "b", y, 3);
  m.Freeze("a/*");
  EXPECT_FALSE(m.FindParameter("a/w").value().node->view().Bool("trainable"));
  EXPECT_FALSE(m.FindParameter("a/b").value().node->view().Bool("trainable"));
  EXPECT_TRUE(m.FindParameter("b/w").value().node->view().Bool("trainable"));
  EXPECT_HAS(ErrorOf([&] { m.Freeze("c/*"); }), "\"c/*\"");
}

TEST(Model, outputs) {
  Model m("t");
  const Tensor x = m.Input("x", {2}, kF32), y = m.Input("y", {2}, kF32);
  m.SetLoss(MeanSquaredError(x, y));
  m.Output("largest", Max(x));
  ASSERT_EQ(m.graph().outputs().size(), 3u);
  EXPECT_EQ(m.graph().outputs()[0].name, "loss");
  EXPECT_EQ(m.graph().outputs()[1].name, "weight");
  EXPECT_EQ(m.graph().outputs()[2].name, "largest");
  EXPECT_HAS(ErrorOf([&] { m.Output("largest", x); }), "already declared");
  EXPECT_HAS(ErrorOf([&] { m.SetLoss(Penalty(x)); }), "loss must be f32[], got f32[2]");
}

}  // namespace
}  // namespace stator::dsl
