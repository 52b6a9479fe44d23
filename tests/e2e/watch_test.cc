// Values inside the step: looking at them changes no bit, and what is shown is what the step holds.
#include "frontend/driver/checkpoint.h"
#include "frontend/driver/file.h"
#include "frontend/driver/json.h"
#include "frontend/driver/probe.h"
#include "frontend/driver/safetensors.h"
#include "frontend/driver/values.h"
#include "tests/e2e/run_support.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>

namespace stator {
namespace {

struct WatchLine {
  int64_t step = 0;
  std::string name;
  double absmax = 0, rms = 0;
};

std::vector<WatchLine> ReadWatched(const std::string& out_dir) {
  std::vector<WatchLine> lines;
  std::ifstream in(out_dir + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const Json json = ParseJson(line, out_dir);
    if (!json.Find("watch")) continue;
    lines.push_back({JsonInt(json, "step", out_dir), JsonString(json, "watch", out_dir),
                     *json.Find("absmax")->As<double>(), *json.Find("rms")->As<double>()});
  }
  return lines;
}

class WatchTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string why;
    if (std::string(GetParam()) == "cuda" && !HasCudaDevice(&why)) GTEST_SKIP() << why;
  }
  TrainConfig Config(const std::string& out) {
    TrainConfig c = SmallConfig(dir_, out);
    c.device = GetParam();
    c.dtype = "float32";
    c.n_layer = 2, c.max_iters = 6;
    c.dropout = 0.1;
    return c;
  }
  void ExpectTheSameRun(const TrainConfig& with, const TrainConfig& without) {
    EXPECT_EQ(ReadSteps(with.out_dir), ReadSteps(without.out_dir));
    EXPECT_EQ(ReadSteps(with.out_dir).size(), 6u);
    EXPECT_EQ(CheckpointFile(with.out_dir, "model.safetensors"),
              CheckpointFile(without.out_dir, "model.safetensors"));
  }
  TempDir dir_;
};
INSTANTIATE_TEST_SUITE_P(Devices, WatchTest, testing::Values("cpu", "cuda"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(WatchTest, changes_no_bit_of_a_run) {
  const TrainConfig with = Config("with"), without = Config("without");
  RunTraining(with, {.patterns = {"h.*/attn:absmax,rms", "backward/lm_head/matmul"}, .every = 2});
  RunTraining(without);
  ExpectTheSameRun(with, without);
  const std::vector<WatchLine> watched = ReadWatched(with.out_dir);
  ASSERT_EQ(watched.size(), 9u);  // two layers and a gradient, at the updates 2, 4 and 6
  for (size_t i = 0; i < watched.size(); ++i) {
    EXPECT_EQ(watched[i].step, static_cast<int64_t>(2 + 2 * (i / 3)));
    EXPECT_GT(watched[i].rms, 0) << watched[i].name;
    EXPECT_GE(watched[i].absmax, watched[i].rms);
  }
  EXPECT_TRUE(watched[0].name.starts_with("h.0/attn/")) << watched[0].name;
  EXPECT_TRUE(watched[1].name.starts_with("h.1/attn/")) << watched[1].name;
  EXPECT_EQ(watched[2].name, "backward/lm_head/matmul");
}

TEST_P(WatchTest, changes_no_bit_of_a_run_with_micro_batches) {
  TrainConfig with = Config("with"), without = Config("without");
  with.gradient_accumulation_steps = without.gradient_accumulation_steps = 2;
  RunTraining(with, {.patterns = {"h.0/mlp"}, .every = 1});
  RunTraining(without);
  ExpectTheSameRun(with, without);
  EXPECT_EQ(ReadWatched(with.out_dir).size(), 6u);
}

TEST_P(WatchTest, says_what_is_near_a_name_that_nothing_has) {
  const auto error = [&](const std::string& pattern) {
    return ErrorOf([&] { RunTraining(Config("out"), {.patterns = {pattern}}); });
  };
  EXPECT_HAS(error("h.7/attn"),
             "watch: 'h.7/attn' matches no value that the step stores, did you "
             "mean 'h.0/attn'");
  EXPECT_HAS(error("nothing_like_it"), "names, such as ");
  EXPECT_HAS(error("h.0/attn:absmx"),
             "'absmx' is not one of absmax, rms, mean, min, max, nonfinite");
  EXPECT_HAS(error("h.0/attn:rms,rms"), "'rms' is named twice");
}

TEST_P(WatchTest, probe_writes_what_was_watched) {
  const TrainConfig config = Config("out");
  RunTraining(config, {.patterns = {"h.1/attn/core"}, .every = 3});
  const WatchLine watched = ReadWatched(config.out_dir).at(0);
  ProbeOptions options{.tensor = watched.name, .output = dir_ / "x.npy", .after = 2};
  options.out = std::tmpfile();
  RunProbe(config, options);
  std::fclose(options.out);
  const std::vector<char> file = ReadFile(options.output);
  ASSERT_GT(file.size(), 10u);
  EXPECT_EQ(std::string(file.begin(), file.begin() + 6), "\x93NUMPY");
  const size_t start =
      10 + static_cast<unsigned char>(file[8]) + 256u * static_cast<unsigned char>(file[9]);
  EXPECT_EQ(start % 64, 0u);
  EXPECT_HAS(std::string(file.begin(), file.begin() + static_cast<ptrdiff_t>(start)),
             "{'descr': '<f4', 'fortran_order': False, 'shape': (8, ");  // heads or tokens next
  ASSERT_EQ(file.size(), start + 4 * 8 * 32 * 2 * 16);
  double absmax = 0, squares = 0;
  for (size_t at = start; at < file.size(); at += 4) {
    float v;
    std::memcpy(&v, file.data() + at, 4);
    absmax = std::max(absmax, std::abs(static_cast<double>(v)));
    squares += static_cast<double>(v) * v;
  }
  EXPECT_EQ(absmax, watched.absmax);
  EXPECT_EQ(std::sqrt(squares / (8 * 32 * 2 * 16)), watched.rms);
}

// Masters that are kept in halves are seen whole: what the checkpoint holds.
TEST_P(WatchTest, probe_joins_the_halves_of_a_master) {
  for (const bool fuse : {true, false}) {
    TrainConfig config = Config(fuse ? "fused" : "unfused");
    config.dtype = "bf16", config.fuse = fuse, config.max_iters = 3;
    config.lr_decay_iters = 10;
    RunTraining(config, {.patterns = {"update/wte/w"}, .every = 3});
    ProbeOptions options{.tensor = "update/wte/w", .output = dir_ / "w.npy", .after = 2};
    options.out = std::tmpfile();
    RunProbe(config, options);
    std::fclose(options.out);
    const SafetensorsFile saved(FindCheckpoint(config.out_dir) + "/model.safetensors");
    const TensorInfo& wte = *saved.Find("wte/w");
    const std::vector<char> want = saved.Read(wte), file = ReadFile(options.output);
    ASSERT_GT(file.size(), want.size());
    EXPECT_TRUE(std::equal(want.begin(), want.end(), file.end() - std::ssize(want)));
    const auto rms = ComputeFigures(Tensor::FromBytes(wte.type, want.data()), {"rms"});
    EXPECT_EQ(ReadWatched(config.out_dir).at(0).rms, rms[0].second);
  }
}

// Weights from a file are what a run starts with, here as in training.
TEST_P(WatchTest, probe_starts_from_given_weights) {
  TrainConfig config = Config("out");
  RunTraining(config);
  const auto probed = [&](const std::string& file) {
    ProbeOptions options{.tensor = "h.1/mlp/down/matmul", .output = dir_ / file};
    options.out = std::tmpfile();
    RunProbe(config, options);
    std::fclose(options.out);
    return ReadFile(options.output);
  };
  const std::vector<char> fresh = probed("fresh.npy");
  config.init_from = FindCheckpoint(config.out_dir) + "/model.safetensors";
  EXPECT_NE(probed("trained.npy"), fresh);
  config.init_from = dir_ / "none.safetensors";
  EXPECT_HAS(ErrorOf([&] { probed("none.npy"); }), "none.safetensors");
}

TEST_P(WatchTest, probe_writes_one_value_only) {
  const ProbeOptions options{.tensor = "h.*/attn/core", .output = dir_ / "x.npy"};
  EXPECT_HAS(ErrorOf([&] { RunProbe(Config("out"), options); }), "matches 2 values");
  const ProbeOptions folder{.tensor = "h.0/attn/core", .output = dir_.path()};
  EXPECT_HAS(ErrorOf([&] { RunProbe(Config("out"), folder); }), "it is a folder");
}

}  // namespace
}  // namespace stator
