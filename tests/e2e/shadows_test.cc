// Low-precision copies of parameters stay equal to their masters, rounded.
#include "frontend/driver/checkpoint.h"
#include "frontend/driver/device.h"
#include "frontend/driver/models.h"
#include "frontend/driver/trainer.h"
#include "tests/e2e/run_support.h"

#include <gtest/gtest.h>

#include <cstring>

namespace stator {
namespace {

void ExpectShadowsMatch(Executor& executor, const std::string& when) {
  int shadows = 0;
  for (const StateEntry& s : executor.plan().states) {
    if (s.role != "shadow") continue;
    ++shadows;
    const std::vector<char> shadow = executor.ReadState(s.name);
    const std::vector<char> master = executor.ReadState(s.name.substr(0, s.name.rfind('.')));
    int wrong = 0;
    for (int64_t i = 0; i < s.type.NumElements(); ++i) {
      float value;
      uint16_t bits;
      std::memcpy(&value, &master[4 * i], 4);
      std::memcpy(&bits, &shadow[2 * i], 2);
      wrong += bits != FloatToBits16(DType::kBF16, value);
    }
    EXPECT_EQ(wrong, 0) << s.name << " " << when << ", of " << s.type.NumElements();
  }
  EXPECT_GT(shadows, 0);
}

void TrainAndCheck(int micro_batches) {
  TempDir dir;
  TrainConfig config = SmallConfig(dir, "out");
  config.dtype = "bf16";
  config.gradient_accumulation_steps = micro_batches;
  PlannedModel planned = CompileTraining(config, *ChooseDevice("cpu").target, true);
  Trainer trainer(MakeExecutor(std::move(planned.compiled.plan), {}));
  InitializeStates(trainer.executor(), 1);
  ExpectShadowsMatch(trainer.executor(), "at the start");
  const std::vector<int32_t> tokens(config.batch_size * config.block_size, 'a');
  const Feed feed = {{"tokens", AsBytes(tokens)}, {"targets", AsBytes(tokens)}};
  for (int step = 1; step <= 2; ++step) {
    trainer.Step(std::vector<Feed>(micro_batches, feed));
    ExpectShadowsMatch(trainer.executor(), StrCat("after update ", step));
  }
}

TEST(Shadows, are_their_masters_rounded_after_every_update) { TrainAndCheck(1); }
TEST(Shadows, are_their_masters_rounded_after_accumulated_updates) { TrainAndCheck(2); }

}  // namespace
}  // namespace stator
