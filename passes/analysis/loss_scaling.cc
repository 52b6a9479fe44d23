#include "passes/analysis/loss_scaling.h"

#include "ir/base/error.h"
#include "ir/base/str.h"

#include <cmath>

namespace stator {
namespace {

Value Counter(Graph& graph, std::string_view name) {
  return graph.AddState(std::string(name), {DType::kI64, {}}, {{"role", std::string("counter")}});
}

}  // namespace

void CheckLossScale(double scale) {
  int exponent = 0;
  if (std::frexp(scale, &exponent) == 0.5 && scale >= kSmallestLossScale &&
      scale <= kLargestLossScale)
    return;
  Fail(ErrorCode::kInvalidArgument, training::kLossScale, " must be a power of two from ",
       kSmallestLossScale, " to ", kLargestLossScale, ", got ", scale);
}

bool ScalesLoss(const PassOptions& options) { return options.compute_dtype == DType::kF16; }

Value LossScale(Graph& graph, const PassOptions& options) {
  if (const Value scale = graph.FindState(training::kLossScale)) return scale;
  CheckLossScale(options.loss_scale);
  return graph.AddState(
      std::string(training::kLossScale), {DType::kF32, {}},
      {{"role", std::string("counter")}, {"init", StrCat("constant(", options.loss_scale, ")")}});
}

void AdjustLossScale(Builder& b, Value scale, Value finite, const PassOptions& options) {
  Graph& graph = b.graph();
  const Value good = Counter(graph, training::kGoodUpdates);
  const Value skipped = Counter(graph, training::kSkippedUpdates);
  b.SetScope(std::string(training::kLossScale));
  const Value zero = b.Constant(0, DType::kI64), one = b.Constant(1, DType::kI64);
  graph.AddOutput(std::string(training::kLossScale), scale);
  graph.SetNextState(skipped, b.Select(finite, skipped, b.Add(skipped, one)));
  if (options.loss_scale_interval == 0) {  // a fixed scale
    graph.SetNextState(good, b.Select(finite, b.Add(good, one), zero));
    return;
  }
  const Value applied = b.Add(good, one);
  const Value grows =
      b.Ge(applied, b.Constant(static_cast<double>(options.loss_scale_interval), DType::kI64));
  const Value larger = b.Min2(b.Mul(scale, 2.0), b.Constant(kLargestLossScale, DType::kF32));
  const Value smaller = b.Max2(b.Mul(scale, 0.5), b.Constant(kSmallestLossScale, DType::kF32));
  graph.SetNextState(scale, b.Select(finite, b.Select(grows, larger, scale), smaller));
  graph.SetNextState(good, b.Select(finite, b.Select(grows, zero, applied), zero));
}

}  // namespace stator
