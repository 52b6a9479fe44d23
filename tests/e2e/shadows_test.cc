// What a step computes with is its f32 masters, rounded: f16 shadows beside them, and the bf16
// halves that bf16 masters are kept in.
#include "codegen/build_plan.h"
#include "frontend/driver/checkpoint.h"
#include "frontend/driver/device.h"
#include "frontend/driver/models.h"
#include "frontend/driver/trainer.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "runtime/executor.h"
#include "tests/e2e/run_support.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

namespace stator {
namespace {

template <typename T>
std::vector<T> ValuesOf(const std::vector<char>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

int ExpectShadowsMatch(Executor& executor, const std::string& when) {
  int shadows = 0;
  for (const StateEntry& s : executor.plan().states) {
    if (s.role != "shadow") continue;
    ++shadows;
    const auto shadow = ValuesOf<uint16_t>(executor.ReadState(s.name));
    const auto master = ValuesOf<float>(executor.ReadState(s.name.substr(0, s.name.rfind('.'))));
    int wrong = 0;
    for (size_t i = 0; i < shadow.size(); ++i) {
      wrong += shadow[i] != FloatToBits16(s.type.dtype, master[i]);
    }
    EXPECT_EQ(wrong, 0) << s.name << " " << when << ", of " << s.type.NumElements();
  }
  return shadows;
}

std::unique_ptr<Trainer> NewTrainer(const std::string& dtype, int micro_batches) {
  TempDir dir;
  TrainConfig config = SmallConfig(dir, "out");
  config.dtype = dtype;
  config.gradient_accumulation_steps = micro_batches;
  PlannedModel planned = CompileTraining(config, *ChooseDevice("cpu").target, true);
  auto trainer = std::make_unique<Trainer>(MakeExecutor(std::move(planned.compiled.plan), {}));
  InitializeStates(trainer->executor(), 1);
  return trainer;
}

void TrainAndCheck(int micro_batches) {
  const auto trainer = NewTrainer("f16", micro_batches);
  EXPECT_GT(ExpectShadowsMatch(trainer->executor(), "at the start"), 0);
  const TrainConfig config = SmallConfig(TempDir(), "out");
  const std::vector<int32_t> tokens(config.batch_size * config.block_size, 'a');
  const Feed feed = {{"tokens", AsBytes(tokens)}, {"targets", AsBytes(tokens)}};
  for (int step = 1; step <= 2; ++step) {
    trainer->Step(std::vector<Feed>(micro_batches, feed));
    ExpectShadowsMatch(trainer->executor(), StrCat("after update ", step));
  }
}

TEST(Shadows, are_their_masters_rounded_after_every_update) { TrainAndCheck(1); }
TEST(Shadows, are_their_masters_rounded_after_accumulated_updates) { TrainAndCheck(2); }

// Nothing is kept twice, and nothing is left to derive.
TEST(Halves, hold_every_parameter_that_bf16_computes_with) {
  for (const int micro_batches : {1, 2}) {
    const auto trainer = NewTrainer("bf16", micro_batches);
    const Plan& plan = trainer->executor().plan();
    int64_t bytes = 0, elements = 0, halves = 0;
    for (const StateEntry& s : plan.states) {
      EXPECT_NE(s.role, "shadow");
      if (s.role != "parameter") continue;
      bytes += s.StoredBytes(), elements += s.type.NumElements(), halves += s.halves;
    }
    EXPECT_GT(halves, 0);
    EXPECT_LE(bytes, 4 * elements + kBufferAlignment * halves);
    EXPECT_EQ(plan.FindProgram("derive"), nullptr);
  }
}

// Every kind of f32, written by the host and by a kernel.
std::vector<float> Awkward() {
  std::vector<float> values;
  for (const uint32_t upper :
       {0x0000u, 0x0001u, 0x007fu, 0x0080u, 0x3f80u, 0x3f81u, 0x7f7eu, 0x7f7fu, 0x7f80u, 0x7fc0u}) {
    for (const uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      for (const uint32_t sign : {0u, 0x80000000u}) {
        values.push_back(std::bit_cast<float>(sign | upper << 16 | low));
      }
    }
  }
  return values;
}

class HalvesOn : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string why;
    if (GetParam() == std::string("cuda") && !HasCudaDevice(&why)) GTEST_SKIP() << why;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, HalvesOn, testing::Values("cpu", "cuda"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(HalvesOn, keep_every_f32) {
  const std::vector<float> values = Awkward();
  const size_t n = values.size();
  const std::unique_ptr<Graph> graph = ParseGraph(StrCat(
      "graph @f(%x: f32[", n, "], %write: bool[], state %w: f32[", n, "], state %w.bf16: bf16[", n,
      "] {derived=true, role=\"shadow\"}) -> (bf16[", n, "], f32[", n, R"(]) {
  %0 = broadcast(%write) {shape=[)",
      n, "]} : bool[", n, R"(]
  %1 = select(%0, %x, %w) : f32[)",
      n, R"(]
  return rounded=%w.bf16, whole=%w
  next %w = %1
}
)"));
  const Device device = ChooseDevice(GetParam());
  PassOptions options;
  options.target = device.target.get();
  PassManager(StatePasses()).Run(*graph, options);
  PassManager(LowerPasses()).Run(*graph, options);
  const auto executor = MakeExecutor(BuildPlan({{"f", graph.get()}}, *device.target, {}), {});
  std::vector<uint32_t> want;
  for (const float v : values)
    want.push_back(std::isnan(v) ? 0x7fff0000u : std::bit_cast<uint32_t>(v));

  executor->WriteState("w", AsBytes(values));
  EXPECT_EQ(ValuesOf<uint32_t>(executor->ReadState("w")), want);
  const std::vector<float> ones(n, 1.0f);
  for (const char write : {0, 1}) {  // keeps what the host wrote; replaces it
    if (write) executor->WriteState("w", AsBytes(ones));
    const std::vector<char> flag = {write};
    executor->Wait(executor->Enqueue("f", {{"x", AsBytes(values)}, {"write", Bytes(flag)}}));
    EXPECT_EQ(ValuesOf<uint32_t>(executor->ReadState("w")), want) << int{write};
  }
  const std::vector<char> keep = {0};
  OutputMap out =
      executor->Wait(executor->Enqueue("f", {{"x", AsBytes(ones)}, {"write", Bytes(keep)}}));
  std::vector<uint16_t> rounded;
  for (const float v : values) rounded.push_back(HighHalf(v));
  EXPECT_EQ(ValuesOf<uint16_t>(out.at("rounded")), rounded);
  EXPECT_EQ(ValuesOf<uint32_t>(out.at("whole")), want);
}

// A checkpoint holds f32s by parameter name, whatever the run computes in.
TEST(Halves, move_between_dtypes_through_checkpoints) {
  TempDir dir;
  const auto low = NewTrainer("bf16", 1), wide = NewTrainer("f32", 1),
             again = NewTrainer("bf16", 2);
  const TrainConfig config = SmallConfig(dir, "out");
  std::vector<int32_t> tokens(config.batch_size * config.block_size);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 7 % 256);
  low->Step(std::vector<Feed>{{{"tokens", AsBytes(tokens)}, {"targets", AsBytes(tokens)}}});
  const auto expect_same = [&](Executor& a, Executor& b) {
    for (const StateEntry& s : a.plan().states) {
      if (!IsCheckpointed(s)) continue;
      EXPECT_EQ(a.ReadState(s.name), b.ReadState(s.name)) << s.name;
    }
  };
  const auto carry = [&](Trainer& from, Trainer& to, const std::string& name) {
    const std::string saved = SaveCheckpoint(from.executor(), {}, dir / name);
    RestoreCheckpoint(to.executor(), saved, Restore::kEverything);
  };
  carry(*low, *wide, "a");
  expect_same(low->executor(), wide->executor());
  carry(*wide, *again, "b");
  expect_same(low->executor(), again->executor());
}

}  // namespace
}  // namespace stator
