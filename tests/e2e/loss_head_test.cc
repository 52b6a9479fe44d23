// Training through the loss head in chunks: against the loss over full logits, fused against
// unfused, with a head of its own and with the embedding's, over one micro-batch and several.
#include "frontend/driver/trainer.h"
#include "frontend/dsl/dsl.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace stator::dsl {
namespace {

constexpr int64_t kBatch = 2, kLength = 8, kVocab = 37, kWidth = 16;

struct Case {
  const char* name;
  bool tied;
  DType dtype;
  int micro_batches;
  const char* device = "cpu";
};

// Loss, weight and gradient norm of three updates, then the loss of an evaluation.
std::vector<float> Train(const Case& c, bool chunked, bool fuse) {
  Model m("head");
  const Tensor tokens = m.Input("tokens", {kBatch, kLength}, kI32),
               targets = m.Input("targets", {kBatch, kLength}, kI32);
  const Tensor table = EmbeddingTable(m.scope() / "wte", kVocab, kWidth);
  const Tensor weight = c.tied ? table : EmbeddingTable(m.scope() / "lm_head", kVocab, kWidth);
  const Tensor x = Tanh(Linear(m.scope() / "h", Embedding(table, tokens), kWidth));
  const CrossEntropyOptions options = {.label_smoothing = 0.1, .z_loss = 1e-3, .chunk = 5};
  m.SetLoss(chunked ? LinearCrossEntropy(x, weight, targets, options)
                    : CrossEntropy(LinearWith(weight, x), targets, options));
  TrainerOptions how;
  how.device = c.device;
  how.compile.compute_dtype = c.dtype;
  how.compile.micro_batches = c.micro_batches;
  how.compile.fuse = fuse;
  Trainer trainer(m, AdamW{.learning_rate = 0.01, .clip_norm = 1}, how);
  std::vector<std::vector<int32_t>> inputs(c.micro_batches), outputs(c.micro_batches);
  std::vector<Feed> feeds;
  for (int k = 0; k < c.micro_batches; ++k) {
    std::vector<int32_t>&in = inputs[k], &out = outputs[k];
    for (int32_t i = 0; i < kBatch * kLength; ++i) {
      in.push_back((i * 7 + k) % kVocab);
      out.push_back(i % 5 == 3 ? -100 : (i * 11 + 3 * k) % kVocab);
    }
    feeds.push_back({{"tokens", AsBytes(in)}, {"targets", AsBytes(out)}});
  }
  std::vector<float> seen;
  for (int step = 0; step < 3; ++step) {
    const Metrics metrics = trainer.Step(feeds);
    seen.insert(seen.end(), {metrics.loss, metrics.weight, metrics.grad_norm});
  }
  seen.push_back(trainer.Evaluate(feeds[0]).loss);
  return seen;
}

class LossHead : public testing::TestWithParam<Case> {};

TEST_P(LossHead, trains_as_over_full_logits) {
  std::string why;
  if (GetParam().device == std::string("cuda") && !HasCudaDevice(&why)) GTEST_SKIP() << why;
  const std::vector<float> chunked = Train(GetParam(), true, true);
  EXPECT_EQ(chunked, Train(GetParam(), true, false)) << "fused and unfused differ";
  const std::vector<float> full = Train(GetParam(), false, true);
  ASSERT_EQ(chunked.size(), full.size());
  const double tolerance = GetParam().dtype == DType::kF32 ? 1e-5 : 2e-2;
  for (size_t i = 0; i < full.size(); ++i) {
    EXPECT_NEAR(chunked[i], full[i], tolerance * std::abs(full[i])) << "figure " << i;
  }
  EXPECT_EQ(chunked[1], 13 * GetParam().micro_batches);
  EXPECT_LT(chunked[6], chunked[0]);
}

INSTANTIATE_TEST_SUITE_P(Cases, LossHead,
                         testing::Values(Case{"tied_f32", true, DType::kF32, 1},
                                         Case{"untied_f32_accumulated", false, DType::kF32, 2},
                                         Case{"tied_bf16_accumulated", true, DType::kBF16, 2},
                                         Case{"untied_bf16", false, DType::kBF16, 1},
                                         Case{"tied_f32_cuda", true, DType::kF32, 1, "cuda"},
                                         Case{"untied_bf16_accumulated_cuda", false, DType::kBF16,
                                              2, "cuda"}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace stator::dsl
