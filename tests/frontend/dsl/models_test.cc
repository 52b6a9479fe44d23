// GPT-2 and Llama: parameter counts, graphs as text, names in Hugging Face checkpoints.
#include "frontend/dsl/models/gpt2.h"
#include "frontend/dsl/models/llama.h"
#include "frontend/dsl/ops.h"
#include "ir/base/str.h"
#include "tests/frontend/dsl/dsl_support.h"

#include <cmath>
#include <numeric>
#include <set>

namespace stator::dsl {
namespace {

template <typename Config>
int64_t Count(const Config& config) {
  Model m("count");
  const Tensor tokens = m.Input("tokens", {1, 8}, kI32);
  if constexpr (std::is_same_v<Config, GptConfig>) {
    GptLogits(m.scope(), tokens, config);
  } else {
    LlamaLogits(m.scope(), tokens, config);
  }
  return m.NumParameters();
}

TEST(Models, parameter_counts_are_the_published_ones) {
  EXPECT_EQ(Count(GptConfigNamed("gpt2")), 124439808);
  EXPECT_EQ(Count(GptConfigNamed("gpt2-medium")), 354823168);
  EXPECT_EQ(Count(GptConfigNamed("gpt2-large")), 774030080);
  EXPECT_EQ(Count(GptConfigNamed("gpt2-xl")), 1557611200);
  EXPECT_EQ(Count(LlamaConfigNamed("llama-3.2-1b")), 1235814400);
  EXPECT_EQ(Count(LlamaConfigNamed("llama-3.2-3b")), 3212749824);
  EXPECT_EQ(Count(LlamaConfigNamed("llama-3.1-8b")), 8030261248);
  EXPECT_EQ(Count(LlamaConfigNamed("qwen2.5-0.5b")), 494032768);
  EXPECT_EQ(Count(LlamaConfigNamed("qwen3-0.6b")), 596049920);
}

TEST(Models, an_untied_head_is_one_more_table) {
  const GptConfig tied{.n_layer = 1, .n_head = 2, .n_embd = 8, .block_size = 8, .vocab_size = 11};
  GptConfig untied = tied;
  untied.tied_head = false;
  EXPECT_EQ(Count(untied) - Count(tied), 11 * 8);
}

TEST(Models, unknown_names_are_refused) {
  EXPECT_HAS(ErrorOf([] { GptConfigNamed("gpt3"); }), "gpt3");
  EXPECT_HAS(ErrorOf([] { LlamaConfigNamed("llama"); }), "llama-3.2-1b");
}

TEST(Models, a_small_gpt2_as_text) {
  Model m("gpt");
  const Tensor tokens = m.Input("tokens", {2, 4}, kI32), targets = m.Input("targets", {2, 4}, kI32);
  const GptConfig config{
      .n_layer = 1, .n_head = 2, .n_embd = 8, .block_size = 6, .vocab_size = 11, .dropout = 0.1};
  m.SetLoss(GptLoss(m.scope(), tokens, targets, config));
  ExpectGolden(m.graph(), "gpt2");
}

TEST(Models, a_small_llama_as_text) {
  Model m("llama");
  const Tensor tokens = m.Input("tokens", {2, 4}, kI32), targets = m.Input("targets", {2, 4}, kI32);
  const LlamaConfig config{.n_layer = 1,
                           .n_head = 4,
                           .n_kv_head = 2,
                           .n_embd = 8,
                           .ffn_dim = 12,
                           .vocab_size = 11,
                           .tied_head = false,
                           .qkv_bias = true,
                           .qk_norm = true};
  m.SetLoss(LlamaLoss(m.scope(), tokens, targets, config));
  ExpectGolden(m.graph(), "llama");
}

TEST(Models, an_untrained_model_guesses_uniformly) {
  Model m("gpt", Mode::kEvaluate);
  const Tensor tokens = m.Input("tokens", {1, 4}, kI32), targets = m.Input("targets", {1, 4}, kI32);
  const GptConfig config{
      .n_layer = 2, .n_head = 2, .n_embd = 8, .block_size = 4, .vocab_size = 16, .dropout = 0.5};
  const Loss loss = GptLoss(m.scope(), tokens, targets, config);
  const Params p = {{"tokens", Host({kI32, {1, 4}}, {1, 5, 2, 3})},
                    {"targets", Host({kI32, {1, 4}}, {5, 2, 3, 15})}};
  EXPECT_NEAR(Eval(loss.mean, p)[0], std::log(16.0), 0.05);
}

// keep_f32 = ["*residual"] is documented: it means the sums of the stream, all of them, and no
// other op.
TEST(Models, scopes_named_residual_hold_the_sums_of_the_stream) {
  Model m("gpt"), n("llama");
  GptLogits(m.scope(), m.Input("tokens", {1, 4}, kI32),
            {.n_layer = 3, .n_head = 2, .n_embd = 8, .block_size = 4, .vocab_size = 16});
  LlamaLogits(
      n.scope(), n.Input("tokens", {1, 4}, kI32),
      {.n_layer = 3, .n_head = 2, .n_kv_head = 1, .n_embd = 8, .ffn_dim = 16, .vocab_size = 16});
  const auto sums = [](const Model& model) {
    int count = 0;
    for (const Node* node : model.graph().Nodes()) {
      if (!GlobMatch("*residual", node->scope())) continue;
      EXPECT_TRUE(node->Is("add") || node->Is("broadcast")) << node->op().name;
      count += node->Is("add");
    }
    return count;
  };
  EXPECT_EQ(sums(m), 7);  // positions are added to the embedding
  EXPECT_EQ(sums(n), 6);
}

TEST(Models, residual_projections_start_smaller) {
  Model m("gpt");
  GptLogits(m.scope(), m.Input("tokens", {1, 4}, kI32),
            {.n_layer = 8, .n_head = 2, .n_embd = 8, .block_size = 4, .vocab_size = 16});
  const auto init = [&](const char* name) {
    return m.FindParameter(name).value().node->view().Str("init");
  };
  EXPECT_EQ(init("h.7/attn/qkv/w"), "normal(0.02)");
  EXPECT_EQ(init("h.7/attn/proj/w"), "normal(0.005)");
  EXPECT_EQ(init("h.7/mlp/down/w"), "normal(0.005)");
  EXPECT_EQ(init("h.7/mlp/up/b"), "zeros");
}

void ExpectSourcesFor(const Model& m, const std::vector<WeightSource>& sources) {
  std::set<std::string> named;
  for (const WeightSource& s : sources) {
    EXPECT_TRUE(named.insert(s.parameter).second) << s.parameter;
    EXPECT_TRUE(m.graph().FindState(s.parameter)) << s.parameter;
    if (s.tensors.size() == 1) continue;
    EXPECT_EQ(s.rows.size(), s.tensors.size()) << s.parameter;
    EXPECT_EQ(std::accumulate(s.rows.begin(), s.rows.end(), int64_t{0}),
              m.graph().FindState(s.parameter).type().shape.at(0))
        << s.parameter;
  }
  for (const Param& p : m.graph().states()) {
    if (p.node->view().Str("role") != "parameter") continue;
    EXPECT_TRUE(named.contains(p.name)) << p.name;
  }
}

TEST(Models, every_parameter_has_a_source) {
  for (const bool flag : {false, true}) {
    Model m("gpt"), n("llama");
    const GptConfig gpt{.n_layer = 2,
                        .n_head = 2,
                        .n_embd = 8,
                        .block_size = 4,
                        .vocab_size = 16,
                        .bias = flag,
                        .tied_head = flag};
    GptLogits(m.scope(), m.Input("tokens", {1, 4}, kI32), gpt);
    ExpectSourcesFor(m, GptWeightSources(gpt));
    const LlamaConfig llama{.n_layer = 2,
                            .n_head = 2,
                            .n_kv_head = 1,
                            .n_embd = 8,
                            .ffn_dim = 12,
                            .vocab_size = 16,
                            .tied_head = flag,
                            .qkv_bias = flag,
                            .qk_norm = flag};
    LlamaLogits(n.scope(), n.Input("tokens", {1, 4}, kI32), llama);
    ExpectSourcesFor(n, LlamaWeightSources(llama));
    EXPECT_EQ(LlamaWeightSources(llama)[2].rows, (Dims{8, 4, 4}));  // q, k, v
  }
}

TEST(Models, a_sequence_longer_than_the_position_table_is_refused) {
  Model m("gpt");
  const std::string e = ErrorOf([&] {
    GptLogits(m.scope() / "model", m.Input("tokens", {1, 8}, kI32), {.block_size = 4});
  });
  EXPECT_HAS(e, "gpt (model): sequence of 8 is longer than block_size 4 at models_test.cc:");
}

}  // namespace
}  // namespace stator::dsl
