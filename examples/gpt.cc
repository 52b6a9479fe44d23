// A byte-level GPT written out with the DSL's layers, trained on a text file.
// frontend/dsl/models/gpt2.h holds the same model ready-made.
//
//   gpt text.txt [steps [device]]
#include "frontend/driver/trainer.h"
#include "frontend/dsl/dsl.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

using namespace stator::dsl;

namespace {

constexpr int64_t kBatch = 16, kContext = 64, kWidth = 128, kHeads = 4, kLayers = 4, kVocab = 256;

// Pre-norm transformer block; `x` is the residual stream, [B,T,C].
Tensor Block(const Scope& s, Tensor x) {
  x = x + Attention(s / "attn", LayerNorm(s / "ln_1", x), {.heads = kHeads});
  x = x + Mlp(s / "mlp", LayerNorm(s / "ln_2", x), 4 * kWidth);
  return x.In(s.parent());
}

// tokens and targets: bytes, [B,T].
Loss NextByteLoss(const Scope& s, const Tensor& tokens, const Tensor& targets) {
  const Tensor bytes = EmbeddingTable(s / "bytes", kVocab, kWidth);
  const Tensor positions = EmbeddingTable(s / "positions", kContext, kWidth);
  Tensor x = Embedding(bytes, tokens) + positions;  // [B,T,C] + [T,C]
  for (int64_t i = 0; i < kLayers; ++i) x = Block(s / ("h." + std::to_string(i)), x);
  return LinearCrossEntropy(LayerNorm(s / "ln_f", x), bytes, targets);  // a tied head
}

struct Batch {
  std::vector<int32_t> tokens, targets;
};

// Windows from random places of the text; the targets are the bytes one further on.
Batch Draw(const std::string& text, std::mt19937& random) {
  std::uniform_int_distribution<size_t> start(0, text.size() - kContext - 1);
  Batch batch;
  for (int64_t i = 0; i < kBatch; ++i) {
    const size_t at = start(random);
    for (int64_t t = 0; t < kContext; ++t) {
      batch.tokens.push_back(static_cast<unsigned char>(text[at + t]));
      batch.targets.push_back(static_cast<unsigned char>(text[at + t + 1]));
    }
  }
  return batch;
}

}  // namespace

int main(int argc, char** argv) try {
  std::ifstream file(argc > 1 ? argv[1] : "", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.size() < 10 * kContext) {
    std::fprintf(stderr, "usage: gpt text.txt [steps [device]], with at least %d bytes of text\n",
                 static_cast<int>(10 * kContext));
    return 2;
  }
  Model m("gpt");
  const Tensor tokens = m.Input("tokens", {kBatch, kContext}, kI32);
  const Tensor targets = m.Input("targets", {kBatch, kContext}, kI32);
  m.SetLoss(NextByteLoss(m.scope(), tokens, targets));
  std::printf("%lld parameters\n", static_cast<long long>(m.NumParameters()));

  const int steps = argc > 2 ? std::atoi(argv[2]) : 300;
  const AdamW optimizer{.learning_rate = Cosine{.peak = 1e-3, .warmup = steps / 10, .total = steps},
                        .beta2 = 0.99,
                        .weight_decay = 0.1,
                        .clip_norm = 1};
  stator::TrainerOptions options;
  if (argc > 3) options.device = argv[3];
  stator::Trainer trainer(m, optimizer, options);
  std::mt19937 random(1);
  for (int step = 0; step < steps; ++step) {
    const Batch batch = Draw(text, random);
    const auto metrics = trainer.Step(
        {{"tokens", stator::AsBytes(batch.tokens)}, {"targets", stator::AsBytes(batch.targets)}});
    if (step % 20 == 0 || step == steps - 1) {
      std::printf("step %d: loss %.4f, gradient norm %.3f, learning rate %.2e\n", step,
                  metrics.loss, metrics.grad_norm, metrics.learning_rate);
    }
  }
} catch (const std::exception& e) {
  std::fprintf(stderr, "gpt: %s\n", e.what());
  return 1;
}
