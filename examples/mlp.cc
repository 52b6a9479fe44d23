// Learns which points of a square lie inside a circle.
//
//   mlp [device]        auto, cpu, cuda, cuda:1
#include "frontend/driver/trainer.h"
#include "frontend/dsl/dsl.h"

#include <cmath>
#include <cstdio>
#include <random>

using namespace stator::dsl;

constexpr int64_t kBatch = 256;

// Points [B,2] -> logits [B,2] of outside and inside.
Tensor Classify(const Scope& s, const Tensor& points) {
  const Tensor h = Tanh(Linear(s / "hidden", points, 32));
  return Linear(s / "out", h, 2);
}

int main(int argc, char** argv) {
  Model m("mlp");
  const Tensor points = m.Input("points", {kBatch, 2}, kF32);
  const Tensor inside = m.Input("inside", {kBatch}, kI32);
  m.SetLoss(CrossEntropy(Classify(m.scope(), points), inside));

  const AdamW optimizer{.learning_rate = Cosine{.peak = 0.02, .total = 500}, .clip_norm = 1};
  stator::Trainer trainer(m, optimizer, {.device = argc > 1 ? argv[1] : "auto"});
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int step = 0; step <= 500; ++step) {
    std::vector<float> x(2 * kBatch);
    std::vector<int32_t> y(kBatch);
    for (float& v : x) v = uniform(random);
    for (int64_t i = 0; i < kBatch; ++i) y[i] = std::hypot(x[2 * i], x[2 * i + 1]) < 0.8f;
    const auto metrics =
        trainer.Step({{"points", stator::AsBytes(x)}, {"inside", stator::AsBytes(y)}});
    if (step % 100 == 0) std::printf("step %d: loss %.4f\n", step, metrics.loss);
  }
}
