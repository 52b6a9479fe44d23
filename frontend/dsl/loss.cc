#include "frontend/dsl/loss.h"

#include "frontend/dsl/emit.h"
#include "frontend/dsl/ops.h"

namespace stator::dsl {
namespace {

// sum / count, and 0 for a count of 0: the sum is 0 then.
Loss MeanOf(const Tensor& sum, const Tensor& count) { return {sum / Maximum(count, 1.0), count}; }

}  // namespace

Loss operator+(const Loss& a, const Loss& b) {
  return {a.mean + b.mean, a.weight.defined() ? a.weight : b.weight};
}

Loss operator*(double factor, const Loss& loss) { return {factor * loss.mean, loss.weight}; }

Loss CrossEntropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options,
                  Location loc) {
  const Scope s = ScopeOf("cross_entropy", Tensors{logits, targets}, loc);
  Dims expected = logits.shape();
  if (!expected.empty()) expected.pop_back();
  if (logits.rank() < 1 || expected != targets.shape()) {
    FailAt("cross_entropy", s, loc,
           StrCat("logits ", logits.shape(), " do not fit targets ", targets.shape(),
                  ", which lack the last axis"));
  }
  const Tensor rows = logits.In(s).Reshape({targets.size(), logits.dim(-1)}, loc);
  const Tensor picks = targets.In(s).Reshape({targets.size()}, loc);
  const Tensors r = Op("cross_entropy", {rows, picks},
                       {{"ignore_index", options.ignore_index},
                        {"label_smoothing", options.label_smoothing},
                        {"z_loss", options.z_loss}},
                       loc);
  const Tensor counted = NotEqual(picks, Operand(options.ignore_index, loc));
  const Tensor sum = Sum(r[0]);
  return MeanOf(sum, Sum(Cast(counted, kF32)));
}

Loss MeanSquaredError(const Tensor& prediction, const Tensor& target, Location loc) {
  const Tensor error = Operand(prediction, loc) - target;
  const Tensor mean = Mean(Square(Cast(error, kF32)));
  return {mean, mean.scope().Constant(static_cast<double>(error.size()))};
}

Loss MaskedMean(const Tensor& values, const Tensor& mask, Location loc) {
  const Tensor kept = Select(mask, Operand(Cast(values, kF32, loc), loc), 0.0);
  const Tensor sum = Sum(kept);
  return MeanOf(sum, Sum(Cast(mask.In(sum.scope()), kF32)));
}

Loss Penalty(const Tensor& value) { return {value, {}}; }

}  // namespace stator::dsl
