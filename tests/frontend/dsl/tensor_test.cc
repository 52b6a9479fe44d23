// Operators and functions: what they build, where it belongs, and what errors say.
#include "frontend/dsl/ops.h"
#include "tests/frontend/dsl/dsl_support.h"

namespace stator::dsl {
namespace {

TEST(Tensor, operators_broadcast_and_take_numbers_on_either_side) {
  Model m("t");
  const Tensor x = m.Input("x", {2, 3}, kF32), y = m.Input("y", {3}, kF32);
  const Params p = {{"x", Host({kF32, {2, 3}}, {1, 2, 3, 4, 5, 6})},
                    {"y", Host({kF32, {3}}, {10, 20, 30})}};
  EXPECT_EQ(Eval(x + y, p), (std::vector<double>{11, 22, 33, 14, 25, 36}));
  EXPECT_EQ(Eval(1 - x, p), (std::vector<double>{0, -1, -2, -3, -4, -5}));
  EXPECT_EQ(Eval(x * 0.5, p), (std::vector<double>{0.5, 1, 1.5, 2, 2.5, 3}));
  EXPECT_EQ(Eval(60.0 / y, p), (std::vector<double>{6, 3, 2}));
  EXPECT_EQ(Eval(-y, p), (std::vector<double>{-10, -20, -30}));
  EXPECT_EQ(Eval(Select(x > 3, x, 0), p), (std::vector<double>{0, 0, 0, 4, 5, 6}));
  EXPECT_EQ(Eval(Select(x <= 3, 1.0, y), p), (std::vector<double>{1, 1, 1, 10, 20, 30}));
  EXPECT_EQ(Eval(Maximum(x, 3), p), (std::vector<double>{3, 3, 3, 4, 5, 6}));
  EXPECT_EQ(Eval(Cast(Equal(x, 2), kI32), p), (std::vector<double>{0, 1, 0, 0, 0, 0}));
}

TEST(Tensor, numbers_take_the_tensors_dtype) {
  Model m("t");
  EXPECT_EQ((m.Input("h", {2}, kBF16) * 2).dtype(), kBF16);
  const Tensor i = m.Input("i", {2}, kI32);
  EXPECT_EQ((i + 1).dtype(), kI32);
  EXPECT_HAS(ErrorOf([&] { (void)(i * 0.5); }), "mul: number 0.5 beside a tensor of i32");
}

TEST(Tensor, reductions_drop_axes_unless_told) {
  Model m("t");
  const Tensor x = m.Input("x", {2, 3, 4}, kF32);
  EXPECT_EQ(Sum(x).shape(), (Dims{}));
  EXPECT_EQ(Sum(x, {}).shape(), (Dims{}));
  EXPECT_EQ(Sum(x, 0).shape(), (Dims{3, 4}));
  EXPECT_EQ(Sum(x, {0}).shape(), (Dims{3, 4}));
  EXPECT_EQ(Mean(x, {0, -1}).shape(), (Dims{3}));
  EXPECT_EQ(Max(x, -1, true).shape(), (Dims{2, 3, 1}));
  EXPECT_EQ(Variance(x, 1).shape(), (Dims{2, 4}));
  EXPECT_EQ(Variance(x, 1, true).shape(), (Dims{2, 1, 4}));
  EXPECT_EQ(ArgMax(x).shape(), (Dims{2, 3}));
  EXPECT_EQ(LogSumExp(x, -1).shape(), (Dims{2, 3}));
}

TEST(Tensor, movement) {
  Model m("t");
  const Tensor x = m.Input("x", {2, 3, 4}, kF32);
  EXPECT_EQ(x.Reshape({-1, 4}).shape(), (Dims{6, 4}));
  EXPECT_EQ(x.Transpose({0, -1, 1}).shape(), (Dims{2, 4, 3}));
  EXPECT_EQ(x.Slice(-1, 1, 3).shape(), (Dims{2, 3, 2}));
  EXPECT_EQ(Slice(x, 2, 0, 4, 2).shape(), (Dims{2, 3, 2}));
  EXPECT_EQ(Concat({x, x}, 1).shape(), (Dims{2, 6, 4}));
  EXPECT_EQ(Pad(x, {0, 1, 0}, {0, 1, 0}).shape(), (Dims{2, 5, 4}));
  EXPECT_EQ(x.dim(-1), 4);
  EXPECT_EQ(x.size(), 24);
}

TEST(Tensor, matmul_broadcasts_leading_axes_and_flattens_against_a_matrix) {
  Model m("t");
  const Tensor x = m.Input("x", {2, 3, 4}, kF32), w = m.Input("w", {5, 4}, kF32);
  const Tensor y = MatMul(x, w, false, true);
  EXPECT_EQ(y.shape(), (Dims{2, 3, 5}));
  EXPECT_EQ(y.value().node->operand(0).shape(), (Dims{6, 5}));  // one flat matmul, reshaped
  const Tensor b = m.Input("b", {7, 1, 4, 5}, kF32);
  EXPECT_EQ(MatMul(x, b).shape(), (Dims{7, 2, 3, 5}));
}

TEST(Tensor, an_op_belongs_to_the_scope_of_its_latest_operand) {
  Model m("t");
  const Scope block = m.scope() / "h.0", mlp = block / "mlp";
  const Tensor x = m.Input("x", {2}, kF32);
  const Tensor w = mlp.Parameter("w", {2}, "ones");
  const Tensor inner = x * w;
  EXPECT_EQ(inner.value().node->scope(), "h.0/mlp");
  const Tensor outer = x + inner.In(block);
  EXPECT_EQ(outer.value().node->scope(), "h.0");
  EXPECT_EQ((x.In(mlp) + 1).value().node->scope(), "h.0/mlp");
  EXPECT_EQ(mlp.parent().path(), "h.0");
}

TEST(TensorErrors, shapes_name_scope_both_shapes_and_line) {
  Model m("t");
  const Tensor x = m.Input("x", {2, 3}, kF32).In(m.scope() / "h.3" / "mlp");
  const Tensor y = m.Input("y", {4}, kF32);
  const int line = __LINE__ + 1;
  const std::string e = ErrorOf([&] { (void)(y + x.In(m.scope() / "h.3/mlp")); });
  EXPECT_HAS(e, "add (h.3/mlp)");
  EXPECT_HAS(e, "[4]");
  EXPECT_HAS(e, "[2,3]");
  EXPECT_HAS(e, StrCat(" at tensor_test.cc:", line));
}

TEST(TensorErrors, dtypes_name_scope_both_types_and_line) {
  Model m("t");
  const Tensor x = m.Input("x", {2, 3}, kF32).In(m.scope() / "mlp");
  const Tensor y = m.Input("y", {3}, kBF16).In(m.scope() / "mlp");
  const int line = __LINE__ + 1;
  const std::string e = ErrorOf([&] { (void)(x * y); });
  EXPECT_EQ(e, StrCat("mul (mlp): dtypes differ: f32[2,3] vs bf16[3]; cast one at tensor_test.cc:",
                      line));
  const std::string f = ErrorOf([&] { MatMul(x, y.Reshape({3, 1})); });
  EXPECT_HAS(f, "matmul (mlp): dtypes differ: f32[2,3] vs bf16[3,1]");
}

TEST(TensorErrors, every_op_reports_its_scope) {
  Model m("t");
  const Scope s = m.scope() / "here";
  const Tensor x = m.Input("x", {2, 3}, kF32).In(s);
  const std::vector<std::function<void()>> wrong = {
      [&] { MatMul(x, x); },         [&] { Sum(x, 2); },
      [&] { x.Slice(1, 0, 4); },     [&] { x.Reshape({4}); },
      [&] { x.Transpose({0, 0}); },  [&] { Concat({x, Sum(x, 0).In(s)}, 0); },
      [&] { Softmax(x, 5); },        [&] { Gather(x, x); },
      [&] { Broadcast(x, {2, 4}); }, [&] { Op("no_such_op", {x}); },
      [&] { Op("exp", {x, x}); },    [&] { ArgMax(x, 3); },
  };
  for (size_t i = 0; i < wrong.size(); ++i) {
    const std::string e = ErrorOf(wrong[i]);
    EXPECT_HAS(e, "here") << i;
    EXPECT_HAS(e, "tensor_test.cc:") << i;
  }
}

TEST(TensorErrors, misuse_of_handles) {
  Model m("t"), other("u");
  const Tensor x = m.Input("x", {2}, kF32), y = other.Input("y", {2}, kF32), none;
  EXPECT_HAS(ErrorOf([&] { (void)(x + y); }), "different models");
  EXPECT_HAS(ErrorOf([&] { Exp(none); }), "refers to nothing");
  EXPECT_HAS(ErrorOf([&] { (void)none.scope(); }), "refers to nothing");
  EXPECT_HAS(ErrorOf([&] { (void)x.dim(1); }), "1");
}

}  // namespace
}  // namespace stator::dsl
