// Layers: graphs as text, values, scopes and errors.
#include "frontend/dsl/layers.h"

#include "frontend/dsl/attention.h"
#include "frontend/dsl/loss.h"
#include "tests/frontend/dsl/dsl_support.h"

#include <cmath>

namespace stator::dsl {
namespace {

int CountOps(const Graph& graph, std::string_view op) {
  int n = 0;
  for (const Node* node : graph.Nodes()) n += node->Is(op);
  return n;
}

TEST(Layers, an_mlp_as_text) {
  Model m("mlp");
  const Tensor x = m.Input("x", {8, 4}, kF32), target = m.Input("target", {8, 2}, kF32);
  const Scope s = m.scope();
  Tensor h = Tanh(Linear(s / "hidden", x, 16));
  h = Linear(s / "out", h, 2, {.bias = false, .weight_init = "zeros"});
  m.SetLoss(MeanSquaredError(h, target));
  ExpectGolden(m.graph(), "mlp");
}

TEST(Layers, linear_is_x_w_transposed_plus_b_on_the_last_axis) {
  Model m("t");
  const Tensor x = m.Input("x", {1, 2, 2}, kF32);
  const Tensor y = Linear(m.scope() / "fc", x, 3);
  EXPECT_EQ(y.shape(), (Dims{1, 2, 3}));
  EXPECT_EQ(y.scope().path(), "");
  EXPECT_EQ(y.value().node->scope(), "fc");
  const Params p = {{"x", Host({kF32, {1, 2, 2}}, {1, 2, 3, 4})},
                    {"fc/w", Host({kF32, {3, 2}}, {1, 0, 0, 1, 1, 1})},
                    {"fc/b", Host({kF32, {3}}, {10, 20, 30})}};
  EXPECT_EQ(Eval(y, p), (std::vector<double>{11, 22, 33, 13, 24, 37}));
}

TEST(Layers, linear_starts_as_pytorchs) {
  Model m("t");
  Linear(m.scope() / "fc", m.Input("x", {1, 16}, kF32), 3);
  for (const char* name : {"fc/w", "fc/b"}) {
    EXPECT_EQ(m.FindParameter(name).value().node->view().Str("init"), "uniform(0.25)");
  }
}

TEST(Layers, no_rows_is_no_special_case) {
  Model m("t");
  EXPECT_EQ(Linear(m.scope() / "fc", m.Input("x", {0, 4}, kF32), 3).shape(), (Dims{0, 3}));
}

TEST(Layers, embedding_picks_rows) {
  Model m("t");
  const Tensor ids = m.Input("ids", {1, 3}, kI32);
  const Tensor table = EmbeddingTable(m.scope() / "wte", 4, 2);
  const Tensor y = Embedding(table, ids);
  const Params p = {{"ids", Host({kI32, {1, 3}}, {2, 0, 2})},
                    {"wte/w", Host({kF32, {4, 2}}, {0, 1, 2, 3, 4, 5, 6, 7})}};
  EXPECT_EQ(Eval(y, p), (std::vector<double>{4, 5, 0, 1, 4, 5}));
  EXPECT_EQ(y.value().node->scope(), "wte");
}

TEST(Layers, norms) {
  Model m("t");
  const Tensor x = m.Input("x", {1, 4}, kF32);
  const Params p = {{"x", Host({kF32, {1, 4}}, {1, 2, 3, 4})}};
  const std::vector<double> ln = Eval(LayerNorm(m.scope() / "ln", x), p);
  const std::vector<double> rms = Eval(RmsNorm(m.scope() / "rms", x), p);
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(ln[i], (i - 1.5) / std::sqrt(1.25 + 1e-5), 1e-6);
    EXPECT_NEAR(rms[i], (i + 1) / std::sqrt(7.5 + 1e-5), 1e-6);
  }
  EXPECT_EQ(m.NumParameters(), 4 + 4 + 4);
  LayerNorm(m.scope() / "plain", x, {.bias = false});
  EXPECT_EQ(m.NumParameters(), 16);
}

TEST(Layers, swiglu_packs_gate_and_up) {
  Model m("t");
  const Tensor x = m.Input("x", {1, 1}, kF32);
  const Tensor y = SwiGlu(m.scope() / "mlp", x, 2);
  const Params p = {{"x", Host({kF32, {1, 1}}, {1})},
                    {"mlp/gate_up/w", Host({kF32, {4, 1}}, {1, 2, 3, 4})},
                    {"mlp/down/w", Host({kF32, {1, 2}}, {1, 10})}};
  const auto silu = [](double v) { return v / (1 + std::exp(-v)); };
  EXPECT_NEAR(Eval(y, p)[0], silu(1) * 3 + 10 * silu(2) * 4, 1e-4);
}

TEST(Layers, dropout_needs_a_training_model_and_a_rate) {
  for (const Mode mode : {Mode::kTrain, Mode::kEvaluate}) {
    Model m("t", mode);
    const Tensor x = m.Input("x", {4}, kF32);
    EXPECT_EQ(Dropout(m.scope() / "a", x, 0).value(), x.value());
    const Tensor y = Dropout(m.scope() / "b", x, 0.5);
    EXPECT_EQ(CountOps(m.graph(), "dropout"), mode == Mode::kTrain);
    EXPECT_EQ(static_cast<bool>(m.graph().FindState("seed")), mode == Mode::kTrain);
    EXPECT_EQ(y.shape(), x.shape());
    EXPECT_HAS(ErrorOf([&] { Dropout(m.scope() / "c", x, 1); }), "dropout (c): rate");
  }
}

TEST(Attention, heads_stay_in_place) {
  Model m("t");
  const Tensor x = m.Input("x", {2, 5, 12}, kF32);
  const Tensor y = Attention(m.scope() / "attn", x, {.heads = 6, .kv_heads = 2, .dropout = 0.1});
  EXPECT_EQ(y.shape(), x.shape());
  EXPECT_EQ(y.scope().path(), "");
  EXPECT_EQ(CountOps(m.graph(), "transpose"), 0);
  EXPECT_EQ(CountOps(m.graph(), "attention"), 1);
  EXPECT_EQ(m.FindParameter("attn/qkv/w").shape(), (Dims{(6 + 2 * 2) * 2, 12}));
  EXPECT_EQ(m.FindParameter("attn/proj/w").shape(), (Dims{12, 12}));
}

TEST(Attention, equals_softmax_of_scaled_scores) {
  Model m("t");
  const Scope s = m.scope();
  const Tensor q = m.Input("q", {1, 2, 1, 1}, kF32), k = m.Input("k", {1, 2, 1, 1}, kF32);
  const Tensor v = m.Input("v", {1, 2, 1, 1}, kF32);
  const Tensor y = DotProductAttention(s / "core", q, k, v);
  const Params p = {{"q", Host({kF32, {1, 2, 1, 1}}, {1, 2})},
                    {"k", Host({kF32, {1, 2, 1, 1}}, {3, 1})},
                    {"v", Host({kF32, {1, 2, 1, 1}}, {5, 7})}};
  const std::vector<double> out = Eval(y, p);
  EXPECT_NEAR(out[0], 5, 1e-6);  // causal: the first query sees the first key only
  const double a = std::exp(6.0), b = std::exp(2.0);
  EXPECT_NEAR(out[1], (5 * a + 7 * b) / (a + b), 1e-5);
}

TEST(Attention, errors_name_the_layer) {
  Model m("t");
  const Tensor x = m.Input("x", {2, 5, 12}, kF32);
  EXPECT_HAS(ErrorOf([&] { Attention(m.scope() / "a", x, {.heads = 5}); }),
             "attention (a): width 12 is no multiple of 5 heads");
  EXPECT_HAS(ErrorOf([&] { Attention(m.scope() / "b", x, {.heads = 4, .kv_heads = 3}); }),
             "attention (b): 4 heads do not share 3 kv heads");
  EXPECT_HAS(ErrorOf([&] { Attention(m.scope() / "c", Sum(x, 0), {.heads = 4}); }),
             "attention (c): takes [B,T,C], got [5,12]");
}

TEST(Rotary, tables_are_angles_of_position_and_pair) {
  Model m("t");
  const RotaryTables t = MakeRotary(m.scope() / "rope", 3, 4, 100);
  const std::vector<double> cos = Eval(t.cos), sin = Eval(t.sin);
  for (int pos = 0; pos < 3; ++pos) {
    for (int i = 0; i < 2; ++i) {
      const double angle = pos * std::pow(100, -2.0 * i / 4);
      EXPECT_NEAR(cos[2 * pos + i], std::cos(angle), 1e-6);
      EXPECT_NEAR(sin[2 * pos + i], std::sin(angle), 1e-6);
    }
  }
  EXPECT_HAS(ErrorOf([&] { MakeRotary(m.scope() / "odd", 3, 5); }), "rotary (odd)");
}

// Against transformers' _compute_llama3_parameters.
TEST(Rotary, llama3_scaling_stretches_low_frequencies) {
  const RopeScaling scaling{.factor = 32};
  Model m("t");
  const int64_t d = 64;
  const std::vector<double> sin = Eval(MakeRotary(m.scope(), 2, d, 500000, scaling).sin);
  for (int i = 0; i < d / 2; ++i) {
    const double inv = std::pow(500000, -2.0 * i / d), wave = 2 * M_PI / inv;
    double expected = inv;
    if (wave > 8192) {
      expected = inv / 32;
    } else if (wave >= 8192 / 4) {
      const double smooth = (8192 / wave - 1) / (4 - 1);
      expected = (1 - smooth) * inv / 32 + smooth * inv;
    }
    EXPECT_NEAR(sin[d / 2 + i], std::sin(expected), 2e-6 * std::sin(expected) + 1e-9) << i;
  }
}

}  // namespace
}  // namespace stator::dsl
