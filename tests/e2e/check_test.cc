// Whole small models: fused = unfused = replayed to the bit, every value as the interpreter has it
// on the same operands, and the step as a whole as the interpreter has it.
#include "frontend/driver/check.h"

#include "frontend/driver/check_programs.h"
#include "frontend/driver/checkpoint.h"
#include "frontend/driver/data.h"
#include "frontend/driver/models.h"
#include "ir/interpreter.h"
#include "passes/training_programs.h"
#include "tests/e2e/run_support.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

namespace stator {
namespace {

// Odd sizes on purpose: rows of 40 and 104, 13 tokens, 3 sequences.
TrainConfig OddGpt(const TempDir& dir, const std::string& device) {
  TrainConfig c = SmallConfig(dir, "out");
  c.device = device;
  c.dtype = "float32";
  c.n_layer = 2, c.n_head = 2, c.n_embd = 40, c.block_size = 13, c.batch_size = 3;
  c.dropout = 0.1;
  return c;
}

TrainConfig OddLlama(const TempDir& dir, const std::string& device) {
  TrainConfig c = OddGpt(dir, device);
  c.model = "llama";
  c.n_head = 4, c.n_kv_head = 2, c.n_embd = 32, c.dropout = 0;
  return c;
}

std::string CheckReport(const TrainConfig& config, bool* agree) {
  FILE* out = std::tmpfile();
  *agree = RunCheck(config, {.steps = 3, .reference = "yes", .out = out});
  std::string text(static_cast<size_t>(std::ftell(out)), ' ');
  std::rewind(out);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), out), text.size());
  std::fclose(out);
  return text;
}

class Check : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string why;
    if (std::string(GetParam()) == "cuda" && !HasCudaDevice(&why)) GTEST_SKIP() << why;
  }
  void ExpectAgreement(const TrainConfig& config) {
    bool agree = false;
    const std::string report = CheckReport(config, &agree);
    EXPECT_TRUE(agree) << report;
    EXPECT_HAS(report, "fused = unfused");
    EXPECT_HAS(report, "interpreter");
  }
  TempDir dir_;
};
INSTANTIATE_TEST_SUITE_P(Devices, Check, testing::Values("cpu", "cuda"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Check, gpt_with_dropout) { ExpectAgreement(OddGpt(dir_, GetParam())); }

TEST_P(Check, gpt_in_bf16_untied_without_biases) {
  TrainConfig config = OddGpt(dir_, GetParam());
  config.dtype = "bfloat16";
  config.tie_weights = false, config.bias = false;
  ExpectAgreement(config);
}

TEST_P(Check, llama_with_grouped_queries_and_micro_batches) {
  TrainConfig config = OddLlama(dir_, GetParam());
  config.gradient_accumulation_steps = 2;
  ExpectAgreement(config);
}

TEST_P(Check, llama_in_bf16_by_lion) {
  TrainConfig config = OddLlama(dir_, GetParam());
  config.dtype = "bfloat16";
  config.optimizer = "lion";
  ExpectAgreement(config);
}

// The declared step, composites and all, by the interpreter alone: nothing that lowers it takes
// part.
TEST_P(Check, the_step_is_what_the_interpreter_makes_of_the_declared_one) {
  for (const TrainConfig& config : {OddGpt(dir_, GetParam()), OddLlama(dir_, GetParam())}) {
    const Device device = ChooseDevice(config.device);
    const auto model = LossModel(config, 256, dsl::Mode::kTrain);
    const OptimizerSpec optimizer = MakeOptimizer(config)(model->graph());
    const auto executor = MakeExecutor(Compile(model->graph(), optimizer, *device.target).plan, {});
    InitializeStates(*executor, 7);
    PassOptions options;
    options.optimizer = &optimizer;
    const std::unique_ptr<Graph> step = BuildTrainingGraphs(model->graph(), options).train;

    const BatchSource batches(ByteTokens(SmallText()), config.batch_size, config.block_size,
                              "training");
    for (int64_t i = 0; i < 2; ++i) {
      const Batch batch = batches.Random(7, i, 0);
      const Feed feed = {{"tokens", AsBytes(batch.tokens)}, {"targets", AsBytes(batch.targets)}};
      std::map<std::string, Tensor> params;
      for (const Param& p : step->inputs()) {
        params[p.name] = Tensor::FromBytes(p.node->type(), feed.at(p.name).data());
      }
      for (const Param& p : step->states()) {
        params[p.name] = Tensor::FromBytes(p.node->type(), executor->ReadState(p.name).data());
      }
      const InterpreterResult want = Interpret(*step, params);
      OutputMap got = executor->Wait(executor->Enqueue("train", feed));
      for (size_t k = 0; k < want.outputs.size(); ++k) {
        const std::string& name = step->outputs()[k].name;
        const Tensor tensor = Tensor::FromBytes(want.outputs[k].type, got.at(name).data());
        EXPECT_EQ(Compare(tensor, want.outputs[k], 1e-5).ToString(), "no difference") << name;
      }
      for (const auto& [name, tensor] : want.next_states) {
        // Adam divides by the root of tiny second moments, which the first updates do not average
        // out.
        const Tensor state = Tensor::FromBytes(tensor.type, executor->ReadState(name).data());
        EXPECT_EQ(Compare(state, tensor, 1e-3).ToString(), "no difference") << name;
      }
    }
  }
}

// A wrong attention scale in one of the plans is found, and named.
TEST_P(Check, names_the_first_value_that_differs) {
  const TrainConfig config = OddGpt(dir_, GetParam());
  const Device device = ChooseDevice(config.device);
  const auto load = [&](bool fuse, double factor) {
    TrainConfig c = config;
    c.fuse = fuse;
    CompiledModel compiled =
        std::move(CompileTraining(c, *device.target, true, {}, /*keep_graphs=*/true).compiled);
    for (Program& p : compiled.plan.programs) {
      for (PlanStep& s : p.steps) {
        if (auto* call = std::get_if<AttentionCall>(&s.work)) call->scale *= factor;
      }
    }
    CheckedPlan side{.executor = MakeExecutor(std::move(compiled.plan), {}),
                     .values = std::move(compiled.values)};
    for (auto& graph : compiled.graphs) {
      const std::string name = graph->name();
      side.graphs[name] = std::move(graph);
    }
    return side;
  };
  if (std::string(GetParam()) == "cuda")
    GTEST_SKIP() << "f32 attention is composed there: no call has a scale";
  const BatchSource batches(ByteTokens(SmallText()), config.batch_size, config.block_size,
                            "training");
  const Batch batch = batches.Random(7, 0, 0);
  const Feed feed = {{"tokens", AsBytes(batch.tokens)}, {"targets", AsBytes(batch.targets)}};
  for (const bool wrong_is_fused : {true, false}) {
    ProgramCheck check(load(true, wrong_is_fused ? 1.25 : 1),
                       load(false, wrong_is_fused ? 1 : 1.25), "yes");
    InitializeStates(check.fused(), 7);
    const ProgramFindings found = check.Run("train", feed);
    EXPECT_FALSE(found.agree);
    const std::string text = Join(found.lines, "\n");
    EXPECT_HAS(text, "fused and unfused");
    EXPECT_HAS(text, "the first is attention f32[3,13,2,20] (h.0/attn/core)");
    // The interpreter stands beside the unfused plan.
    EXPECT_EQ(Has(text, "each on the operands that the plan computed; the first is attention"),
              !wrong_is_fused)
        << text;
  }
}

}  // namespace
}  // namespace stator
