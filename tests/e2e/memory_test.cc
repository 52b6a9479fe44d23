// A byte budget is met by recomputing, or refused with names. That a recomputing run has the same
// bits is in same_bits_test.cc.
#include "ir/base/error.h"
#include "runtime/executor.h"
#include "tests/e2e/run_support.h"

#include <gtest/gtest.h>

namespace stator {
namespace {

class Memory : public testing::Test {
 protected:
  static int64_t BytesOf(const TrainConfig& config) {
    const Plan plan = CompileTraining(config, *MakeCpuTarget(), /*bytes=*/true).compiled.plan;
    return plan.state_bytes + plan.arena_bytes + plan.io_bytes;
  }
  TrainConfig Config(const std::string& name) {
    TrainConfig config = SmallConfig(dir_, name);
    config.n_layer = 4;
    config.max_iters = 4;
    config.warmup_iters = 1;
    return config;
  }
  TempDir dir_;
};

TEST_F(Memory, a_budget_that_is_large_enough_changes_nothing) {
  TrainConfig config = Config("roomy");
  const int64_t wanted = BytesOf(config);
  config.memory = "1GiB";
  EXPECT_EQ(BytesOf(config), wanted);
}

TEST_F(Memory, what_cannot_fit_is_refused_by_name) {
  TrainConfig config = Config("small");
  config.memory = "1MiB";
  try {
    BytesOf(config);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kOutOfMemory);
    EXPECT_HAS(std::string(e.what()),
               "does not fit 1.0 MiB; with everything recomputed that can be it takes ");
    EXPECT_HAS(std::string(e.what()), "alive at its peak");
  }
}

TEST_F(Memory, a_refusal_for_the_sake_of_attention_says_what_takes_less) {
  TrainConfig config = Config("long");
  config.n_layer = 2, config.n_head = 12, config.n_embd = 768;
  config.batch_size = 1, config.block_size = 600'000;
  const auto error = [&] {
    return ErrorOf([&] { CompileTraining(config, *MakeRecordedTarget("h200"), true); });
  };
  EXPECT_HAS(error(), "; --fast does without most of the scratch");
  config.fast = true;
  EXPECT_EQ(error(), "");
}

// Plans for an H200 in bf16, in GiB without context and libraries.
struct LargeCase {
  const char* name;
  const char* model;
  int64_t n_layer, n_head, n_embd, vocab_size, batch_size, block_size;
  const char* memory;
  double most;
};

class LargeModels : public testing::TestWithParam<LargeCase> {};

TEST_P(LargeModels, fit) {
  const LargeCase& c = GetParam();
  TrainConfig config;
  config.model = c.model;
  config.dtype = "bf16";
  config.n_layer = c.n_layer, config.n_head = c.n_head, config.n_embd = c.n_embd;
  config.vocab_size = c.vocab_size;
  config.batch_size = c.batch_size, config.block_size = c.block_size;
  config.memory = c.memory;
  if (config.model == "llama") config.n_kv_head = 8;
  const Plan plan = CompileTraining(config, *RecordedDevice("h200").target, false).compiled.plan;
  const auto bytes = static_cast<double>(plan.state_bytes + plan.arena_bytes + plan.io_bytes);
  EXPECT_LT(bytes / 0x1p30, c.most);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, LargeModels,
    testing::Values(
        LargeCase{"vocabulary_of_262144", "gpt2", 12, 12, 768, 262144, 16, 1024, "", 9.6},
        LargeCase{"vocabulary_of_a_million", "gpt2", 12, 12, 768, 1048576, 8, 1024, "19.6GiB", 19},
        LargeCase{"gpt2", "gpt2", 12, 12, 768, 50304, 64, 1024, "", 21.4},
        LargeCase{"gpt2_in_16", "gpt2", 12, 12, 768, 50304, 64, 1024, "16GiB", 15.4},
        LargeCase{"gpt2_xl_in_48", "gpt2", 48, 25, 1600, 50304, 16, 1024, "48GiB", 47.4},
        LargeCase{"llama_1b_in_40", "llama", 16, 32, 2048, 128256, 8, 4096, "40GiB", 39.4}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace stator
