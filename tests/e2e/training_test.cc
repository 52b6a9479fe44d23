// The whole chain on the CPU: text in, a trained model out.
#include "frontend/driver/checkpoint.h"
#include "frontend/driver/file.h"
#include "frontend/driver/resolve.h"
#include "tests/e2e/run_support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <set>
#include <thread>

namespace stator {
namespace {

class Training : public testing::Test {
 protected:
  TempDir dir_;
};

TEST_F(Training, loss_falls_below_the_bigram_entropy) {
  TrainConfig config = SmallConfig(dir_, "out");
  config.max_iters = 200;
  config.learning_rate = 1e-2;
  const TrainResult result = RunTraining(config);
  EXPECT_EQ(result.iteration, 200);
  const std::vector<Step> steps = ReadSteps(config.out_dir);
  ASSERT_EQ(steps.size(), 200u);
  EXPECT_NEAR(steps[0].loss, std::log(256), 0.3);
  EXPECT_LT(result.val_loss, 0.8 * result.bigram);
}

TEST_F(Training, micro_batches_add_up_to_the_whole_batch) {
  const TrainConfig whole = SmallConfig(dir_, "whole");
  TrainConfig parts = SmallConfig(dir_, "parts");
  parts.batch_size /= 4;
  parts.gradient_accumulation_steps = 4;
  RunTraining(whole);
  RunTraining(parts);
  const std::vector<Step> a = ReadSteps(whole.out_dir), b = ReadSteps(parts.out_dir);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i].loss, b[i].loss, 1e-4) << "update " << i;
    EXPECT_EQ(a[i].lr, b[i].lr);
  }
}

// The sums are wider, and that is all: as many kernels, and the same products and attention.
TEST_F(Training, a_residual_stream_in_f32_adds_no_kernels) {
  TrainConfig config = SmallConfig(dir_, "out");
  config.dtype = "bf16";
  config.n_layer = 3;
  for (const char* model : {"gpt2", "llama"}) {
    config.model = model;
    const auto steps = [&](const StringList& keep_f32) {
      config.keep_f32 = keep_f32;
      // Of a library's call also what it moves, which says in what dtypes.
      std::multiset<std::string> names;
      const Plan plan = CompileTraining(config, *MakeRecordedTarget("h200"), true).compiled.plan;
      for (const PlanStep& s : plan.programs[0].steps) {
        const bool kernel = std::holds_alternative<KernelCall>(s.work);
        names.insert(kernel ? "kernel" : StrCat(s.name, ' ', s.scope, ' ', s.bytes));
      }
      return names;
    };
    EXPECT_EQ(steps({"*residual"}), steps({})) << model;
  }
}

TEST_F(Training, scopes_to_keep_in_f32_that_are_nowhere_are_told) {
  TrainConfig config = SmallConfig(dir_, "out");
  const auto error = [&](const char* glob) {
    config.keep_f32 = {"*residual", glob};
    return ErrorOf([&] { CompileTraining(config, *MakeRecordedTarget("h200"), true); });
  };
  EXPECT_HAS(error("h.7/mlp"),
             "keep_f32: no scope of gpt2 matches 'h.7/mlp', did you mean 'h.0/mlp'");
  EXPECT_HAS(error("nothing_like_it"), "'nothing_like_it'; there are ");
}

TEST_F(Training, a_residual_stream_in_f32_trains) {
  const TrainConfig exact = SmallConfig(dir_, "exact");
  TrainConfig kept = SmallConfig(dir_, "kept");
  kept.dtype = "bf16";
  kept.keep_f32 = {"*residual"};
  RunTraining(exact);
  RunTraining(kept);
  const std::vector<Step> a = ReadSteps(exact.out_dir), b = ReadSteps(kept.out_dir);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i].loss, b[i].loss, 2e-3) << "update " << i;
}

// The first lines of metrics say that the loop, which listens, is running.
std::jthread InterruptAfterThreeUpdates(const std::string& out_dir) {
  return std::jthread([out_dir] {
    while (ReadSteps(out_dir).size() < 3) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    std::raise(SIGINT);
  });
}

TEST_F(Training, an_interrupted_run_saves_and_can_go_on) {
  TrainConfig config = SmallConfig(dir_, "interrupted");
  config.max_iters = 1'000'000;
  std::jthread interrupts = InterruptAfterThreeUpdates(config.out_dir);
  const TrainResult result = RunTraining(config);
  interrupts.join();
  EXPECT_EQ(result.signal, SIGINT);
  EXPECT_GE(result.iteration, 3);
  EXPECT_EQ(ReadCheckpointInfo(FindCheckpoint(config.out_dir)).iteration, result.iteration);
  config.resume = true;
  config.max_iters = result.iteration + 2;
  config.lr_decay_iters = 1'000'000;
  EXPECT_EQ(RunTraining(config).iteration, result.iteration + 2);
}

TEST_F(Training, an_interrupt_in_the_last_evaluation_counts) {
  TrainConfig config = SmallConfig(dir_, "late");
  config.max_iters = 3, config.warmup_iters = 1;
  config.eval_iters = 1'000'000;
  std::jthread interrupts = InterruptAfterThreeUpdates(config.out_dir);
  const TrainResult result = RunTraining(config);
  interrupts.join();
  EXPECT_EQ(result.signal, SIGINT);
  EXPECT_EQ(ReadCheckpointInfo(FindCheckpoint(config.out_dir)).iteration, 3);
  // What was cut short is no figure.
  const std::vector<char> metrics = ReadFile(config.out_dir + "/metrics.jsonl");
  EXPECT_FALSE(Has(std::string(metrics.begin(), metrics.end()), "val_loss"));
}

TEST_F(Training, a_learning_rate_that_blows_up_is_told) {
  TrainConfig config = SmallConfig(dir_, "blown");
  config.learning_rate = 1e6;
  config.schedule = "constant";
  config.optimizer = "sgd";
  config.grad_clip = 0;
  config.warmup_iters = 0;
  config.max_iters = 150;
  EXPECT_HAS(ErrorOf([&] { RunTraining(config); }), "a lower learning_rate than 1e+06");
}

TEST_F(Training, a_run_that_is_not_finite_to_its_end_keeps_the_checkpoint_before) {
  TrainConfig config = SmallConfig(dir_, "broken");
  config.optimizer = "sgd", config.schedule = "constant";
  config.grad_clip = 0, config.warmup_iters = 0;
  config.max_iters = 4;
  RunTraining(config);
  const std::string before = FindCheckpoint(config.out_dir);
  config.resume = true;
  config.learning_rate = 1e6;
  config.max_iters = 60;
  EXPECT_HAS(ErrorOf([&] { RunTraining(config); }), "the run ended with a validation loss of ");
  EXPECT_EQ(FindCheckpoint(config.out_dir), before);
}

TEST_F(Training, a_resumed_run_says_what_it_changes_and_keeps_the_model) {
  TrainConfig config = SmallConfig(dir_, "changed");
  config.max_iters = 2, config.warmup_iters = 1;
  RunTraining(config);
  const auto resume = [&](const char* key, const char* text) {
    return ResolveConfig(
        {.toml = "",
         .flags = {{"resume", {"true"}}, {"out_dir", {config.out_dir}}, {key, {text}}}});
  };
  EXPECT_EQ(resume("learning_rate", "0.001").notes,
            StringList{"learning_rate is 0.001, it was 0.003"});
  EXPECT_EQ(resume("max_iters", "5").notes, StringList{"max_iters is 5, it was 2"});
  EXPECT_EQ(resume("keep_f32", "h.*").notes, StringList{"keep_f32 is h.*, it was none"});
  EXPECT_EQ(resume("device", "cpu").notes, StringList{});
  EXPECT_HAS(ErrorOf([&] { resume("n_layer", "2"); }), "n_layer: 2 is asked for, 1 is in");
  EXPECT_HAS(ErrorOf([&] { resume("n_layer", "2"); }), "another model needs another out_dir");
  // Another way to say the same value is no change.
  for (const auto& [key, text] :
       {std::pair{"vocab_size", "256"}, {"n_kv_head", "0"}, {"dtype", "float32"}}) {
    EXPECT_EQ(resume(key, text).notes, StringList{}) << key;
  }
  EXPECT_HAS(ErrorOf([&] { resume("vocab_size", "257"); }),
             "vocab_size: 257 is asked for, 0 (256) is in");
  // What states hang on, and what says only how a run begins.
  EXPECT_HAS(ErrorOf([&] { resume("optimizer", "sgd"); }), "optimizer: sgd is asked for");
  EXPECT_HAS(ErrorOf([&] { resume("dtype", "f16"); }), "dtype: f16 is asked for");
  EXPECT_EQ(resume("dtype", "bf16").notes, StringList{"dtype is bf16, it was f32"});
  EXPECT_EQ(ErrorOf([&] { resume("loss_scale", "2"); }), "");  // of f16 alone
  EXPECT_HAS(ErrorOf([&] { resume("init_from", "w"); }), "--init_from " + config.out_dir);
  EXPECT_EQ(ErrorOf([&] {
              ResolveForCheckpoint(
                  {.toml = "", .flags = {{"out_dir", {config.out_dir}}, {"dtype", {"f16"}}}});
            }),
            "");
}

TEST_F(Training, a_resumed_run_has_the_states_of_the_one_before) {
  const auto ends = [&](const TrainConfig& config, const char* key, const char* text) {
    const ConfigSources sources = {
        .toml = "", .flags = {{"resume", {"true"}}, {"out_dir", {config.out_dir}}, {key, {text}}}};
    return ErrorOf([&] { ResolveConfig(sources); });
  };
  TrainConfig plain = SmallConfig(dir_, "plain");
  plain.max_iters = 2, plain.warmup_iters = 1;
  plain.optimizer = "sgd", plain.momentum = 0;
  RunTraining(plain);
  EXPECT_HAS(ends(plain, "dropout", "0.1"), "dropout: 0.1 is asked for, a run of '0.0' is in ");
  EXPECT_HAS(ends(plain, "momentum", "0.9"), "momentum: 0.9 is asked for, a run of '0.0' is in ");
  TrainConfig states = plain;
  states.out_dir = dir_ / "states";
  states.momentum = 0.9, states.dropout = 0.1, states.dtype = "f16";
  RunTraining(states);
  EXPECT_HAS(ends(states, "dropout", "0"), "dropout: 0.0 is asked for, a run of '0.1' is in ");
  EXPECT_HAS(ends(states, "momentum", "0"), "momentum: 0.0 is asked for, a run of '0.9' is in ");
  EXPECT_HAS(ends(states, "loss_scale", "2"), "loss_scale: 2.0 is asked for");
  EXPECT_EQ(ends(states, "dropout", "0.2"), "");
  EXPECT_EQ(ends(states, "momentum", "0.8"), "");
}

TEST_F(Training, a_run_that_never_begins_keeps_the_metrics_of_the_one_before) {
  TrainConfig config = SmallConfig(dir_, "kept");
  config.max_iters = 2, config.warmup_iters = 1;
  RunTraining(config);
  const std::vector<Step> steps = ReadSteps(config.out_dir);
  EXPECT_EQ(steps.size(), 2u);
  config.init_from = dir_ / "missing.safetensors";
  EXPECT_HAS(ErrorOf([&] { RunTraining(config); }), "missing.safetensors");
  EXPECT_EQ(ReadSteps(config.out_dir), steps);
  config.init_from = "";
  RunTraining(config);
  EXPECT_EQ(ReadSteps(config.out_dir), steps);
}

TEST_F(Training, metrics_stay_as_long_as_their_checkpoint) {
  TrainConfig config = SmallConfig(dir_, "over");
  config.max_iters = 6, config.warmup_iters = 1;
  RunTraining(config);
  const std::vector<Step> steps = ReadSteps(config.out_dir);
  const std::string fresh = config.out_dir + "/metrics.jsonl.new";
  // A run that forgot to resume, and ends before its first checkpoint.
  TrainConfig other = config;
  other.optimizer = "sgd";
  other.learning_rate = 1e6, other.grad_clip = 0;
  other.max_iters = 150;
  EXPECT_HAS(ErrorOf([&] { RunTraining(other); }), "a lower learning_rate");
  EXPECT_EQ(ReadSteps(config.out_dir), steps);
  EXPECT_TRUE(std::filesystem::exists(fresh));
  config.resume = true;
  config.max_iters = 8;
  RunTraining(config);
  std::vector<Step> both = ReadSteps(config.out_dir);
  EXPECT_EQ(both.size(), 8u);
  both.resize(6);
  EXPECT_EQ(both, steps);
  EXPECT_FALSE(std::filesystem::exists(fresh));
  // One that gets there.
  config.resume = false;
  config.seed = 2;
  RunTraining(config);
  EXPECT_EQ(ReadSteps(config.out_dir).size(), 8u);
  EXPECT_NE(ReadSteps(config.out_dir)[0], steps[0]);
  EXPECT_FALSE(std::filesystem::exists(fresh));
}

TEST_F(Training, data_that_cannot_be_read_ends_a_run_that_saves) {
  TrainConfig config = SmallConfig(dir_, "bad");
  config.vocab_size = 300;
  config.batch_size = 1, config.gradient_accumulation_steps = 2;
  config.max_iters = 1000;
  std::vector<uint16_t> ids(20'000, 7);
  const auto run = [&](const char* name, size_t bad) {
    ids[bad] = 400;
    WriteFileAtomically(dir_ / name, {reinterpret_cast<const char*>(ids.data()), ids.size() * 2});
    ids[bad] = 7;
    config.data = {dir_ / name};
    return ErrorOf([&] { RunTraining(config); });
  };
  EXPECT_HAS(run("train.bin", 9'000), StrCat("token 9000 of ", dir_ / "train.bin", " is 400"));
  const int64_t saved = ReadCheckpointInfo(FindCheckpoint(config.out_dir)).iteration;
  EXPECT_GT(saved, 0);
  EXPECT_EQ(std::ssize(ReadSteps(config.out_dir)), saved);
  // In the validation split, which the end of a run looks at.
  config.max_iters = 3, config.warmup_iters = 1;
  config.out_dir = dir_ / "bad_end";
  EXPECT_HAS(run("val.bin", 19'999), "token 19999 of ");
  EXPECT_EQ(ReadCheckpointInfo(FindCheckpoint(config.out_dir)).iteration, 3);
  // With nothing trained the checkpoint of the run before stays.
  config.seed = 2, config.eval_interval = 1;
  config.max_iters = 1, config.warmup_iters = 0;
  std::fill(ids.begin(), ids.begin() + 18'000, 400);
  EXPECT_HAS(run("all.bin", 0), "is 400");
  EXPECT_EQ(ReadCheckpointInfo(FindCheckpoint(config.out_dir)).iteration, 3);
}

TEST_F(Training, an_error_of_the_data_is_told_where_saving_fails_too) {
  TrainConfig config = SmallConfig(dir_, "bad");
  config.vocab_size = 300;
  config.max_iters = 3, config.warmup_iters = 1;
  std::vector<uint16_t> ids(20'000, 7);
  ids[19'999] = 400;
  config.data = {dir_ / "val.bin"};
  WriteFileAtomically(config.data[0], {reinterpret_cast<const char*>(ids.data()), ids.size() * 2});
  // So long that there is room for the names of metrics, and none for those of a checkpoint.
  config.out_dir = dir_.path();
  while (config.out_dir.size() < 4070) {
    const size_t missing = 4070 - config.out_dir.size();
    config.out_dir += "/" + std::string(missing > 250 ? 200 : missing - 1, 'x');
  }
  EXPECT_HAS(ErrorOf([&] { RunTraining(config); }), "token 19999 of ");
  EXPECT_EQ(ReadSteps(config.out_dir).size(), 3u);
  EXPECT_EQ(FindCheckpoint(config.out_dir), "");
}

TEST_F(Training, a_checkpoint_is_no_out_dir) {
  TrainConfig config = SmallConfig(dir_, "outer");
  config.max_iters = 2, config.warmup_iters = 1;
  RunTraining(config);
  const std::string checkpoint = FindCheckpoint(config.out_dir);
  config.out_dir = checkpoint;
  config.max_iters = 4;
  for (const bool resume : {true, false}) {
    config.resume = resume;
    EXPECT_HAS(ErrorOf([&] { RunTraining(config); }), "is itself a checkpoint; to go on from it");
  }
  EXPECT_EQ(FindCheckpoint(checkpoint), checkpoint);  // to read it is fine
}

TEST_F(Training, few_updates_and_none_have_a_schedule) {
  for (const char* schedule : {"cosine", "linear", "wsd", "constant"}) {
    for (const int64_t updates : {0, 1}) {
      TrainConfig config = SmallConfig(dir_, StrCat(schedule, updates));
      config.schedule = schedule;
      config.max_iters = updates, config.warmup_iters = 0;
      EXPECT_EQ(RunTraining(config).iteration, updates) << schedule;
    }
  }
  TrainConfig config = SmallConfig(dir_, "warm");
  config.max_iters = 4, config.warmup_iters = 4;
  EXPECT_HAS(ErrorOf([&] { RunTraining(config); }), "4 updates of warm-up do not fit before");
}

TEST_F(Training, a_text_shorter_than_a_block_is_refused) {
  TrainConfig config = SmallConfig(dir_, "short");
  config.block_size = 100'000;
  EXPECT_HAS(ErrorOf([&] { RunTraining(config); }), "block_size 100000 needs at least 100001");
}

}  // namespace
}  // namespace stator
