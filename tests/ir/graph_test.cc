// Graph edits, the builder's shortcuts, the registry and the verifier.
#include "ir/graph.h"

#include "ir/base/error.h"
#include "ir/builder.h"
#include "ir/interpreter.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "tests/ir/compare.h"

#include <gtest/gtest.h>

namespace stator {
namespace {

const Type kF32x4 = {DType::kF32, {4}};

TEST(Graph, erases_what_nothing_depends_on) {
  Graph g("f");
  Builder b(g);
  const Value x = g.AddInput("x", kF32x4), used = b.Exp(x);
  b.Neg(b.Log(x));
  g.AddOutput("", used);
  EXPECT_EQ(g.EraseDead(), 2);
  EXPECT_EQ(g.num_nodes(), 1);
  VerifyGraph(g);
}

TEST(Graph, replaces_uses_in_nodes_outputs_and_next_states) {
  Graph g("f");
  Builder b(g);
  const Value x = g.AddInput("x", kF32x4), w = g.AddState("w", kF32x4);
  const Value a = b.Exp(x), c = b.Neg(a);
  g.AddOutput("y", a);
  g.SetNextState(w, a);
  g.ReplaceAllUses(a, x);
  EXPECT_EQ(c.node->operand(0), x);
  EXPECT_EQ(g.outputs()[0].value, x);
  EXPECT_EQ(g.FindNextState(w.node), x);
  VerifyGraph(g);
}

TEST(Graph, one_value_used_twice_by_one_node_keeps_two_uses) {
  Graph g("f");
  Builder b(g);
  const Value x = g.AddInput("x", kF32x4), y = b.Mul(x, x);
  EXPECT_EQ(x.node->uses().size(), 2u);
  const Value z = b.Exp(x);
  g.SetOperand(y.node, 1, z);
  EXPECT_EQ(y.node->operand(0), x);
}

TEST(Graph, a_copy_has_what_the_node_has_on_other_operands) {
  Graph g("f");
  Builder b(g);
  const Value x = g.AddInput("x", kF32x4), y = g.AddInput("y", kF32x4);
  b.SetScope("h.0");
  const Value sum = b.Sum(x, 0);
  sum.node->SetFact("region", int64_t{3});
  const Value of_y[] = {y};
  const Node* copy = g.AddCopy(*sum.node, of_y);
  EXPECT_EQ(copy->operand(0), y);
  EXPECT_EQ(y.node->uses().size(), 1u);
  EXPECT_EQ(copy->type(), sum.type());
  EXPECT_EQ(copy->attrs(), sum.node->attrs());
  EXPECT_EQ(copy->scope(), "h.0");
  EXPECT_EQ(copy->region(), 3);
  VerifyGraph(g);
}

TEST(Graph, types_are_verified_where_attributes_or_operands_changed) {
  Graph g("f");
  Builder b(g);
  const Value x = g.AddInput("x", kF32x4), wide = g.AddInput("wide", {DType::kF32, {5}});
  const Value half = b.Cast(x, DType::kF16), e = b.Exp(x);
  VerifyGraph(g);
  half.node->SetAttr("to", DType::kBF16);
  EXPECT_THROW(VerifyGraph(g), Error);
  half.node->SetAttr("to", DType::kF16);
  VerifyGraph(g);
  g.SetOperand(e.node, 0, wide);
  EXPECT_THROW(VerifyGraph(g), Error);
}

TEST(Graph, the_facts_that_are_at_hand_follow_the_map) {
  Graph g("f");
  const Value x = g.AddInput("x", kF32x4);
  Node* n = Builder(g).Exp(x).node;
  EXPECT_EQ(n->region(), -1);
  n->SetFact("view", true);
  n->SetFact("region", int64_t{2});
  EXPECT_TRUE(n->is_view());
  EXPECT_EQ(n->region(), 2);
  n->ClearFact("view");
  n->ClearFact("region");
  EXPECT_FALSE(n->is_view());
  EXPECT_EQ(n->region(), -1);
}

TEST(Graph, parameters_keep_their_names_when_others_go) {
  Graph g("f");
  g.AddState("a", kF32x4);
  const Value b = g.AddState("b", kF32x4), c = g.AddState("c", kF32x4);
  g.RemoveState("a");
  EXPECT_EQ(g.ParamName(b.node), "b");
  EXPECT_EQ(g.ParamName(c.node), "c");
}

TEST(Graph, names_are_unique_and_next_states_keep_their_type) {
  Graph g("f");
  const Value w = g.AddState("w", kF32x4);
  EXPECT_THROW(g.AddInput("w", kF32x4), Error);
  const Value x = g.AddInput("x", {DType::kF32, {5}});
  EXPECT_THROW(g.SetNextState(w, x), Error);
}

TEST(Verifier, finds_a_use_before_its_definition) {
  Graph g("f");
  Builder b(g);
  const Value a = b.Exp(g.AddInput("x", kF32x4)), c = b.Neg(a);
  g.AddOutput("", c);
  VerifyGraph(g);
  g.MoveBefore(c.node, a.node);
  EXPECT_THROW(VerifyGraph(g), Error);
}

TEST(Inline, copies_a_body_with_its_facts) {
  const auto body = ParseGraph(
      "graph @g(%x: f32[4]) -> f32[4] {\n  %0 = exp(%x) : f32[4] @\"s\" #{region=3}\n  return "
      "%0\n}\n");
  Graph g("f");
  const Value x = g.AddInput("x", kF32x4);
  g.AddOutput("", InlineGraph(*body, {x}, g)[0]);
  EXPECT_NE(PrintGraph(g).find("%0 = exp(%x) : f32[4] @\"s\" #{region=3}"), std::string::npos);
}

TEST(Registry, rejects_incomplete_and_repeated_records) {
  OpRegistry ops;
  EXPECT_THROW(ops.Add({.name = "", .scalar = "x"}), Error);
  EXPECT_THROW(ops.Add({.name = "e", .operands = {{"x"}}}), Error);
  EXPECT_THROW(ops.Add({.name = "c", .op_class = OpClass::kComposite}), Error);
  ops.Add({.name = "mine", .operands = {{"x"}}, .scalar = "x"});
  EXPECT_THROW(ops.Add({.name = "mine", .operands = {{"x"}}, .scalar = "x"}), Error);
  EXPECT_NE(ops.Find("mine"), nullptr);
}

// --- builder ---

TEST(Builder, broadcasts_as_numpy_does_and_sum_to_undoes_it) {
  Graph g("f");
  Builder b(g);
  const Value x = g.AddInput("x", {DType::kF32, {4, 1, 3}}),
              y = g.AddInput("y", {DType::kF32, {5, 1}});
  const Value sum = b.Add(x, y);
  EXPECT_EQ(sum.shape(), (Dims{4, 5, 3}));
  g.AddOutput("x", b.SumTo(sum, x.shape()));
  g.AddOutput("y", b.SumTo(sum, y.shape()));
  EXPECT_EQ(g.outputs()[0].value.shape(), x.shape());
  EXPECT_EQ(g.outputs()[1].value.shape(), y.shape());
}

TEST(Builder, returns_its_operand_where_nothing_is_to_do) {
  Graph g("f");
  Builder b(g);
  const Value x = g.AddInput("x", {DType::kF32, {2, 3}});
  EXPECT_EQ(b.Cast(x, DType::kF32), x);
  EXPECT_EQ(b.Reshape(x, {2, -1}), x);
  EXPECT_EQ(b.Broadcast(x, {2, 3}), x);
  EXPECT_EQ(b.Transpose(x, {0, 1}), x);
  EXPECT_EQ(b.SumTo(x, {2, 3}), x);
  EXPECT_EQ(b.Concat({x}, 0), x);
  EXPECT_EQ(g.num_nodes(), 0);
}

TEST(Builder, mean_and_reductions_drop_axes_when_asked) {
  Graph g("f");
  Builder b(g);
  const Value x = g.AddInput("x", {DType::kF32, {2, 3}});
  g.AddOutput("", b.Mean(x, {}, true));
  g.AddOutput("", b.Sum(x, {1}, true));
  const auto out =
      Interpret(g, {{"x", MakeTensor(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6})}}).outputs;
  EXPECT_TRUE(Same(out[0], MakeTensor(DType::kF32, {}, {3.5})));
  EXPECT_TRUE(Same(out[1], MakeTensor(DType::kF32, {2}, {6, 15})));
}

TEST(Interpreter, names_what_is_missing_or_mistyped) {
  const auto g = ParseGraph("graph @f(%x: f32[4]) -> f32[4] {\n  return %x\n}");
  EXPECT_THROW(Interpret(*g, {}), Error);
  EXPECT_THROW(Interpret(*g, {{"x", Tensor(Type{DType::kF32, {5}})}}), Error);
}

TEST(Interpreter, returns_next_states_by_name) {
  const auto g = ParseGraph(
      "graph @f(state %n: i64[] {role=\"counter\"}) {\n  %0 = constant() {dtype=i64, value=1.0} : "
      "i64[]\n"
      "  %1 = add(%n, %0) : i64[]\n  return\n  next %n = %1\n}");
  const auto result = Interpret(*g, {{"n", MakeTensor(DType::kI64, {}, {41})}});
  EXPECT_EQ(result.next_states.at("n").i[0], 42);
}

}  // namespace
}  // namespace stator
