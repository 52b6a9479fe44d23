// The text form: what prints reads back, and what is wrong is named with its place.
#include "ir/text.h"

#include "ir/base/error.h"
#include "ir/builder.h"
#include "ir/verifier.h"

#include <gtest/gtest.h>

namespace stator {
namespace {

std::string ErrorOf(const std::string& text) {
  try {
    ParseGraph(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kParse);
    return e.what();
  }
  return "no error";
}

std::string Body(const std::string& line) {
  return StrCat("graph @f(%x: f32[4,8], %y: f32[8,2]) -> f32[4,2] {\n  ", line,
                "\n  return %0\n}\n");
}

TEST(Text, a_graph_with_everything_round_trips) {
  const std::string text =
      R"x(graph @step(
    %tokens: i32[2,3],
    %scale: f32[] #{view=true},
    state %w: f32[8,2] {group="decay", init="normal(0.02)", trainable=true},
    state %step: i64[] {role="counter"}) -> (f32[2,3,2], f32[2,3]) {
  %0 = gather(%w, %tokens) : f32[2,3,2] @"embed/tok \"a\"" #{region=1}
  %1, %2 = top_k(%0) {k=1} : f32[2,3,1], i32[2,3,1]
  %3 = reshape(%1) {shape=[2,3]} : f32[2,3]
  %4 = constant() {value=-1e-05} : f32[]
  %5 = broadcast(%4) {shape=[8,2]} : f32[8,2] #{offset=[1024], space=[2]}
  return loss=%0, %3
  next %w = %5
}
)x";
  EXPECT_EQ(PrintGraph(*ParseGraph(text)), text);
  EXPECT_EQ(PrintGraph(*ParseGraph(text)->Clone()), text);
}

TEST(Text, absent_operands_print_as_underscores_and_trailing_ones_not_at_all) {
  const std::string text =
      "graph @f(%x: f32[4,8], %b: f32[8]) -> f32[4,8] {\n"
      "  %0, %1, %2 = layer_norm(%x, _, %b) : f32[4,8], f32[4,1], f32[4,1]\n"
      "  %3, %4, %5 = layer_norm(%0) {eps=0.25} : f32[4,8], f32[4,1], f32[4,1]\n"
      "  return %3\n"
      "}\n";
  EXPECT_EQ(PrintGraph(*ParseGraph(text)), text);
}

TEST(Text, defaults_are_left_out_and_integers_become_floats_where_floats_are_meant) {
  const auto graph = ParseGraph(
      "graph @f(%x: f32[4]) -> f32[4] {\n"
      "  %y = clamp(%x) {min=0, max=inf} : f32[4]  // a comment\n"
      "  return %y\n}");
  EXPECT_NE(PrintGraph(*graph).find("%0 = clamp(%x) {min=0.0} : f32[4]"), std::string::npos);
}

TEST(Text, special_numbers_round_trip) {
  for (const char* v : {"inf", "-inf", "nan", "-0.0", "1e+300", "0.1", "5e-324"}) {
    const std::string text =
        StrCat("graph @f() -> f64[] {\n  %0 = constant() {dtype=f64, value=", v,
               "} : f64[]\n  return %0\n}\n");
    EXPECT_EQ(PrintGraph(*ParseGraph(text)), text);
  }
}

TEST(Text, errors_carry_line_and_column) {
  EXPECT_EQ(ErrorOf("graf @f() {}"), "line 1, column 1: 'graph' expected, found 'graf @f() {}'");
  EXPECT_EQ(ErrorOf(Body("%0 = matmul(%x, %z) : f32[4,2]")),
            "line 2, column 21: %z is not defined");
  EXPECT_EQ(ErrorOf(Body("%0 = matmul(%x, %y) : f32[4,3]")),
            "line 2, column 24: matmul: result 0 is f32[4,2], the text says f32[4,3]");
  EXPECT_EQ(ErrorOf(Body("%x = matmul(%x, %y) : f32[4,2]")),
            "line 2, column 3: %x is already defined");
  EXPECT_EQ(ErrorOf(Body("%0 = matmul(%x, %y) : f31[4,2]")),
            "line 2, column 28: unknown dtype f31");
  EXPECT_EQ(ErrorOf(Body("%0 = matmul(%x, %y) {out=f32, out=f32} : f32[4,2]")),
            "line 2, column 40: attribute out repeated");
}

TEST(Text, facts_are_of_their_kind) {
  const std::string node = "%0 = matmul(%x, %y) : f32[4,2] ";
  EXPECT_EQ(ErrorOf(Body(node + "#{region=0}")), "no error");
  EXPECT_EQ(ErrorOf(Body(node + "#{phase=3}")),
            "line 2, column 44: fact phase has the wrong kind: 3, like \"word\" expected");
  EXPECT_EQ(ErrorOf(Body(node + "#{regoin=3}")), "line 2, column 45: unknown fact regoin");
}

TEST(Text, op_errors_are_placed_too) {
  EXPECT_NE(ErrorOf(Body("%0 = matmull(%x, %y) : f32[4,2]"))
                .find("unknown op matmull; did you mean matmul"),
            std::string::npos);
  EXPECT_NE(ErrorOf(Body("%0 = matmul(%x, %x) : f32[4,2] @\"h.3/mlp\""))
                .find("matmul (h.3/mlp): inner dimensions differ: 8 vs 4 in f32[4,8] x f32[4,8]"),
            std::string::npos);
  EXPECT_NE(ErrorOf(Body("%0 = matmul(%x) : f32[4,2]")).find("matmul: takes 2 operands, got 1"),
            std::string::npos);
  EXPECT_NE(ErrorOf(Body("%0 = matmul(%x, %y) {transpose=true} : f32[4,2]"))
                .find("matmul: no attribute named transpose"),
            std::string::npos);
  EXPECT_NE(ErrorOf(Body("%0 = matmul(%x, %y) {transpose_a=1} : f32[4,2]"))
                .find("attribute transpose_a has the wrong kind: 1, like false expected"),
            std::string::npos);
}

TEST(Text, the_signature_must_agree_with_the_body) {
  EXPECT_NE(ErrorOf("graph @f(%x: f32[4]) -> f32[5] {\n  return %x\n}")
                .find("output 0 is f32[4], the signature says f32[5]"),
            std::string::npos);
  EXPECT_NE(ErrorOf("graph @f(%x: f32[4]) {\n  return %x\n}")
                .find("returns 1 values, its signature says 0"),
            std::string::npos);
  EXPECT_NE(ErrorOf("graph @f(%x: f32[4]) {\n  return\n  next %x = %x\n}")
                .find("only a state has a next value"),
            std::string::npos);
  EXPECT_NE(
      ErrorOf("graph @f() {\n  return\n}\nmore").find("line 4, column 1: text after the graph"),
      std::string::npos);
}

// --- the sentences inference speaks ---

std::string InferenceError(const char* op, const char* sample) {
  try {
    ParseSample(DefaultOps().Get(op), sample);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

// Counts of elements and bytes stay in 64 bits.
TEST(Inference, nothing_has_more_than_two_to_the_50_elements) {
  Graph graph("f");
  const auto error = [](const auto& add) -> std::string {
    try {
      add();
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(error([&] {
              graph.AddInput("n", {DType::kF32, {int64_t{1} << 32, int64_t{1} << 32}});
            }),
            "input n: f32[4294967296,4294967296] has more than 2^50 elements");
  const Value x = graph.AddInput("x", {DType::kF32, {1 << 30, 1}});
  const Value y = graph.AddInput("y", {DType::kF32, {1, 1 << 30}});
  EXPECT_EQ(error([&] {
              graph.AddNode("matmul", {x, y}, {}, "head");
            }),
            "matmul (head): f32[1073741824,1073741824] has more than 2^50 elements");
  const Type empty = {DType::kF32, {0, int64_t{1} << 60}};
  EXPECT_EQ(error([&] { graph.AddInput("empty", empty); }), "no error");
}

TEST(Inference, errors_give_the_values) {
  EXPECT_EQ(InferenceError("add", "(f32[4], f32[5])"),
            "add: operand types differ: f32[4] vs f32[5]");
  EXPECT_EQ(InferenceError("add", "(bool[4], bool[4])"),
            "add: operand a must be a number, got bool[4]");
  EXPECT_EQ(InferenceError("reshape", "(f32[4,6]) {shape=[5,5]}"),
            "reshape: f32[4,6] has not as many elements as [5,5]");
  EXPECT_EQ(InferenceError("transpose", "(f32[4,6]) {permutation=[0,0]}"),
            "transpose: [0,0] is not a permutation of the axes of f32[4,6]");
  EXPECT_EQ(InferenceError("slice", "(f32[4]) {starts=[1], limits=[5]}"),
            "slice: [1,5) by 1 is no part of axis 0 of f32[4]");
  EXPECT_EQ(InferenceError("pad", "(f32[4]) {low=[-1], high=[0]}"),
            "pad: negative padding -1, 0, 0 of axis 0 of f32[4]");
  EXPECT_EQ(InferenceError("concat", "(f32[4,2], f32[3,3]) {axis=1}"),
            "concat: operands differ besides axis 1: f32[4,2] vs f32[3,3]");
  EXPECT_EQ(InferenceError("sum", "(f32[4,2]) {axes=[2]}"),
            "sum: axis 2 is out of range for rank 2");
  EXPECT_EQ(InferenceError("sum", "(f32[4,2]) {axes=[1,-1]}"),
            "sum: axis -1 is repeated in [1,-1]");
  EXPECT_EQ(InferenceError("select", "(bool[4], f32[4], bf16[4])"),
            "select: branches differ: f32[4] vs bf16[4]");
  EXPECT_EQ(InferenceError("layer_norm", "(f32[4,8], f32[4])"),
            "layer_norm: scale does not fit the last axis: f32[4] vs f32[4,8]");
  EXPECT_EQ(InferenceError("cross_entropy", "(f32[4,8], i32[8])"),
            "cross_entropy: targets must have the logits' shape without its last axis: f32[4,8] vs "
            "i32[8]");
  EXPECT_EQ(InferenceError("gelu", "(f32[4]) {approximate=\"fast\"}"),
            "gelu: approximate is \"none\" or \"tanh\", not \"fast\"");
  EXPECT_EQ(InferenceError("top_k", "(f32[4]) {k=5}"),
            "top_k: no 5 elements along axis -1, got f32[4]");
  EXPECT_EQ(InferenceError("dropout", "(f32[4], u32[2], i64[]) {rate=1}"),
            "dropout: dropout rate 1.0 is not in [0,1)");
  EXPECT_EQ(InferenceError("random_bits", "(u32[3], i64[]) {shape=[4]}"),
            "random_bits: the seed is a u32[2], got u32[3]");
}

TEST(Inference, sizes_go_past_two_to_the_31) {
  const auto graph =
      ParseSample(DefaultOps().Get("take_along"), "(f32[70000,70000], i32[70000,2])");
  EXPECT_EQ(graph->inputs()[0].node->type().NumElements(), 4900000000);
  EXPECT_EQ(graph->inputs()[0].node->type().Bytes(), 19600000000);
  // Its gradient scatters by i64 positions.
  Node* node = graph->first();
  Builder b(*graph);
  node->op().grad(b, node->view(), {graph->AddInput("dy", node->type())});
  EXPECT_NE(PrintGraph(*graph).find("i64[140000]"), std::string::npos);
}

TEST(Inference, broadcasting_in_the_builder_names_op_scope_and_shapes) {
  Graph g("f");
  Builder b(g);
  const Value x = g.AddInput("x", {DType::kF32, {4, 3}}), y = g.AddInput("y", {DType::kF32, {4}});
  b.SetScope("h.0/mlp");
  try {
    b.Add(x, y);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()), "add (h.0/mlp): shapes [4,3] and [4] do not broadcast");
  }
}

}  // namespace
}  // namespace stator
