// A user's own op: rounding to a grid with a straight-through gradient, and a network that trains
// with its weights rounded. The record is all there is to it: no pass and no emitter knows of the
// op, and it is fused, differentiated and compiled for either device like any other.
//
//   custom_op [device]
#include "frontend/driver/trainer.h"
#include "frontend/dsl/dsl.h"
#include "ir/base/error.h"
#include "ir/interpreter.h"
#include "ir/text.h"

#include <cmath>
#include <cstdio>
#include <exception>
#include <random>

using namespace stator::dsl;
using stator::OpView;

constexpr int64_t kBatch = 256;

template <typename T>
T Round(T x, T step) {
  return step * std::floor(x / step + T(0.5));
}

// Its derivative is 0 wherever it exists, so the gradient is that of the identity (Bengio et al.
// 2013).
stator::OpDef RoundToRecord() {
  return {
      .name = "round_to",
      .operands = {{"x", stator::TypeSet::kAnyFloat}},
      .attrs = {{"step", 1.0}},
      .scalar = "T($step) * st_floor(st_div(x, T($step)) + T(0.5))",
      .grad = [](stator::Builder&, const OpView&, const stator::Values& dy) -> stator::Values {
        return {dy[0]};
      },
      .reference =
          [](const OpView& op, std::span<const stator::Tensor* const> in,
             std::span<stator::Tensor> out) {
            const double step = op.Float("step");
            for (int64_t i = 0; i < out[0].size(); ++i) {
              const double x = in[0]->Get(i);
              out[0].Set(i, op.type(0).dtype == kF64
                                ? Round(x, step)
                                : Round(static_cast<float>(x), static_cast<float>(step)));
            }
          },
      .samples = {"(f32[4,8]) {step=0.25}", "(bf16[3,5])"},
  };
}

Tensor RoundTo(const Tensor& x, double step, Location loc = Location::current()) {
  return Op("round_to", {x}, {{"step", step}}, loc)[0];
}

// Compiles the samples of `op` for `device` and compares each with the record's reference, to the
// bit.
void CheckSamples(const stator::OpDef& op, const stator::OpRegistry& ops,
                  const std::string& device) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal(0, 2);
  const stator::Device chosen = stator::ChooseDevice(device);
  for (const std::string& sample : op.samples) {
    const auto graph = stator::ParseSample(op, sample, ops);
    stator::Tensor x(graph->FindInput("x").type());
    for (int64_t i = 0; i < x.size(); ++i) x.Set(i, normal(random));
    const stator::Tensor expected = stator::Interpret(*graph, {{"x", x}}).outputs[0];

    const auto compiled =
        stator::CompileForward(op.name, *chosen.target, {.forward = {{"run", graph.get()}}});
    const auto executor = stator::MakeExecutor(compiled.plan, {.device = chosen.ordinal});
    const std::vector<char> bytes = x.ToBytes();
    const auto outputs = executor->Wait(executor->Enqueue("run", {{"x", bytes}}));
    const bool same = outputs.begin()->second == expected.ToBytes();
    std::printf("%s %s: %s\n", op.name.c_str(), sample.c_str(), same ? "same bits" : "differs");
    if (!same) stator::Fail(stator::ErrorCode::kInvalidArgument, op.name, " is not what it says");
  }
}

// A linear layer whose weight is a multiple of 1/4 wherever it is used.
Tensor RoundedLinear(const Scope& s, const Tensor& x, int64_t out) {
  const Tensor w = s.Parameter("w", {out, x.dim(-1)}, "xavier_uniform");
  const Tensor b = s.Parameter("b", {out}, "zeros");
  return (LinearWith(RoundTo(w, 0.25), x) + b).In(s.parent());
}

void Train(const stator::OpRegistry& ops, const std::string& device) {
  Model m("rounded", Mode::kTrain, ops);
  const Tensor points = m.Input("points", {kBatch, 2}, kF32);
  const Tensor inside = m.Input("inside", {kBatch}, kI32);
  const Tensor h = Tanh(RoundedLinear(m.scope() / "hidden", points, 32));
  m.SetLoss(CrossEntropy(RoundedLinear(m.scope() / "out", h, 2), inside));

  stator::Trainer trainer(m, AdamW{.learning_rate = 0.01}, {.device = device});
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

int main(int argc, char** argv) try {
  const std::string device = argc > 1 ? argv[1] : "auto";
  stator::OpRegistry ops = stator::DefaultOps();  // a copy, which models refer to
  ops.Add(RoundToRecord());
  CheckSamples(ops.Get("round_to"), ops, device);
  Train(ops, device);
} catch (const std::exception& e) {
  std::fprintf(stderr, "custom_op: %s\n", e.what());
  return 1;
}
