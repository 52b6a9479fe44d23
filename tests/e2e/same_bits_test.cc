// What must not change a bit of a training run, on every device: running it again, stopping and
// resuming, fusion, captured graphs.
#include "frontend/driver/resolve.h"
#include "runtime/executor.h"
#include "tests/e2e/run_support.h"

#include <gtest/gtest.h>

namespace stator {
namespace {

class SameBits : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string why;
    if (GetParam() == std::string("cuda") && !HasCudaDevice(&why)) GTEST_SKIP() << why;
  }
  TrainConfig Config(const std::string& out_name) {
    TrainConfig config = SmallConfig(dir_, out_name);
    config.device = GetParam();
    config.dtype = "f32";
    return config;
  }
  void ExpectSameRuns(const TrainConfig& a, const TrainConfig& b) {
    RunTraining(a);
    RunTraining(b);
    ExpectSame(a.out_dir, b.out_dir);
  }
  // Runs `config` to its end, and to `stop` and from there to its end.
  void ExpectResumeIsNoStop(TrainConfig config, int64_t stop) {
    config.lr_decay_iters = config.max_iters;
    TrainConfig stopped = config;
    stopped.out_dir += "-stopped";
    RunTraining(config);
    stopped.max_iters = stop;
    RunTraining(stopped);
    const TrainConfig resumed =
        ResolveConfig({.toml = "",
                       .flags = {{"out_dir", {stopped.out_dir}},
                                 {"resume", {"true"}},
                                 {"device", {config.device}},
                                 {"max_iters", {std::to_string(config.max_iters)}}}});
    EXPECT_EQ(resumed.n_embd, config.n_embd);
    EXPECT_EQ(RunTraining(resumed).iteration, config.max_iters);
    ExpectSame(config.out_dir, stopped.out_dir);
  }
  void ExpectSame(const std::string& a, const std::string& b) {
    EXPECT_FALSE(ReadSteps(a).empty());
    EXPECT_EQ(ReadSteps(a), ReadSteps(b));
    for (const char* file : {"model.safetensors", "state.safetensors"}) {
      EXPECT_TRUE(CheckpointFile(a, file) == CheckpointFile(b, file)) << file;
    }
  }
  TempDir dir_;
};

TEST_P(SameBits, of_two_runs_with_one_seed) {
  ExpectSameRuns(Config("a"), Config("b"));
  TrainConfig c = Config("c");
  c.seed = 2;
  RunTraining(c);
  EXPECT_NE(ReadSteps(Config("a").out_dir), ReadSteps(c.out_dir));
}

TEST_P(SameBits, of_two_bf16_runs_with_fused_attention) {
  TrainConfig a = Config("a"), b = Config("b");
  for (TrainConfig* config : {&a, &b}) {
    config->dtype = "bf16";
    config->block_size = 256, config->batch_size = 64, config->n_embd = 64;
    config->max_iters = 6, config->eval_interval = 0;
  }
  ExpectSameRuns(a, b);
}

TEST_P(SameBits, fused_and_unfused) {
  for (const char* dtype : {"f32", "bf16"}) {
    TrainConfig fused = Config(StrCat("fused-", dtype)),
                unfused = Config(StrCat("unfused-", dtype));
    fused.dtype = unfused.dtype = dtype;
    unfused.fuse = false;
    ExpectSameRuns(fused, unfused);
  }
}

// A twentieth below what the run wants, so that it recomputes.
TEST_P(SameBits, recomputing_or_not) {
  const Device device = ChooseDevice(GetParam());
  for (const char* dtype : {"f32", "bf16"}) {
    TrainConfig roomy = Config(StrCat("roomy-", dtype));
    roomy.dtype = dtype;
    roomy.n_layer = 4, roomy.max_iters = 4, roomy.warmup_iters = 1;
    const Plan plan = CompileTraining(roomy, *device.target, /*bytes=*/true).compiled.plan;
    const int64_t wanted = plan.state_bytes + plan.arena_bytes + plan.io_bytes;
    TrainConfig tight = roomy;
    tight.out_dir = Config(StrCat("tight-", dtype)).out_dir;
    const int64_t budget = wanted - wanted / 20 + device.target->ReservedBytes();
    tight.memory = std::to_string(budget);
    const Plan fitted = CompileTraining(tight, *device.target, true).compiled.plan;
    EXPECT_LT(fitted.arena_bytes, plan.arena_bytes);
    EXPECT_LE(
        fitted.state_bytes + fitted.arena_bytes + fitted.io_bytes + device.target->ReservedBytes(),
        budget);
    ExpectSameRuns(roomy, tight);
  }
}

TEST_P(SameBits, eager_and_captured) {
  for (const char* dtype : {"f32", "bf16"}) {
    TrainConfig graph = Config(StrCat("graph-", dtype)), eager = Config(StrCat("eager-", dtype));
    graph.dtype = eager.dtype = dtype;
    graph.gradient_accumulation_steps = eager.gradient_accumulation_steps = 2;
    graph.dropout = eager.dropout = 0.1;
    eager.mode = "eager";
    ExpectSameRuns(graph, eager);
  }
}

TEST_P(SameBits, resumed) { ExpectResumeIsNoStop(Config("plain"), 9); }

TEST_P(SameBits, resumed_with_dropout_and_micro_batches) {
  TrainConfig config = Config("dropout");
  config.dropout = 0.2;
  config.gradient_accumulation_steps = 3;
  config.max_iters = 10;
  ExpectResumeIsNoStop(config, 4);
}

TEST_P(SameBits, resumed_in_bf16) {
  TrainConfig config = Config("bf16");
  config.dtype = "bf16";
  config.max_iters = 10;
  ExpectResumeIsNoStop(config, 4);
}

// The loss scale falls, and rises again, on both sides of the stop.
TEST_P(SameBits, resumed_in_f16) {
  TrainConfig config = Config("f16");
  config.dtype = "f16";
  config.loss_scale = 16777216;
  config.loss_scale_interval = 2;
  config.max_iters = 16;
  ExpectResumeIsNoStop(config, 7);
}

TEST_P(SameBits, resumed_for_llama_with_grouped_queries) {
  TrainConfig config = Config("llama");
  config.model = "llama";
  config.n_kv_head = 1;
  config.max_iters = 10;
  ExpectResumeIsNoStop(config, 4);
}

INSTANTIATE_TEST_SUITE_P(Devices, SameBits, testing::Values("cpu", "cuda"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace stator
