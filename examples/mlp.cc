// The smallest whole program: a multi-layer perceptron learns which points lie inside a circle.
//
//   mlp [device]        device: cpu, cuda, cuda:1, auto
#include "frontend/driver/trainer.h"
#include "frontend/dsl/dsl.h"

#include <cstdio>
#include <exception>
#include <random>

using namespace stator::dsl;

// Points x [B,2] -> logits [B,2] of outside and inside.
Tensor Classify(const Scope& s, const Tensor& x) {
  const Tensor h = Tanh(Linear(s / "hidden", x, 32));
  return Linear(s / "out", h, 2);
}

int main(int argc, char** argv) try {
  constexpr int64_t kBatch = 256;
  Model m("mlp");
  const Tensor x = m.Input("x", {kBatch, 2}, kF32), y = m.Input("y", {kBatch}, kI32);
  const Tensor logits = Classify(m.scope(), x);
  m.SetLoss(CrossEntropy(logits, y));

  stator::TrainerOptions options;
  if (argc > 1) options.device = argv[1];
  const AdamW optimizer{.learning_rate = Cosine{.peak = 0.02, .total = 500}};
  stator::Trainer trainer(m, optimizer, options);
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int step = 0; step < 500; ++step) {
    std::vector<float> points(2 * kBatch);
    std::vector<int32_t> inside(kBatch);
    for (float& v : points) v = uniform(random);
    for (int64_t i = 0; i < kBatch; ++i) {
      const float a = points[2 * i], b = points[2 * i + 1];
      inside[i] = a * a + b * b < 0.5f;
    }
    const auto metrics =
        trainer.Step({{"x", stator::AsBytes(points)}, {"y", stator::AsBytes(inside)}});
    if (step % 100 == 0 || step == 499) std::printf("step %d: loss %.4f\n", step, metrics.loss);
  }
} catch (const std::exception& e) {
  std::fprintf(stderr, "mlp: %s\n", e.what());
  return 1;
}
