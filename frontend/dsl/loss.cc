#include "frontend/dsl/loss.h"

#include "frontend/dsl/emit.h"
#include "frontend/dsl/ops.h"
#include "ir/ops/loss_head.h"

namespace stator::dsl {
namespace {

// sum / count, and 0 for a count of 0: the sum is 0 then.
Loss MeanOf(const Tensor& sum, const Tensor& count) { return {sum / Maximum(count, 1.0), count}; }

AttrMap Attrs(const CrossEntropyOptions& options) {
  return {{"ignore_index", options.ignore_index},
          {"label_smoothing", options.label_smoothing},
          {"z_loss", options.z_loss}};
}

// Of losses that are 0 where the target is not counted.
Loss MeanOverCounted(const Tensor& losses, const Tensor& targets,
                     const CrossEntropyOptions& options, Location loc) {
  const Tensor counted = NotEqual(targets, Operand(options.ignore_index, loc));
  const Tensor sum = Sum(losses);
  return MeanOf(sum, Sum(Cast(counted, kF32)));
}

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
  const Tensors r = Op("cross_entropy", {rows, picks}, Attrs(options), loc);
  return MeanOverCounted(r[0], picks, options, loc);
}

Loss LinearCrossEntropy(const Tensor& x, const Tensor& weight, const Tensor& targets,
                        const CrossEntropyOptions& options, Location loc) {
  const Scope s = x.scope();
  Dims expected = x.shape();
  if (!expected.empty()) expected.pop_back();
  if (x.rank() < 1 || expected != targets.shape()) {
    FailAt("linear_cross_entropy", s, loc,
           StrCat("input ", x.shape(), " does not fit targets ", targets.shape(),
                  ", which lack the last axis"));
  }
  if (weight.rank() != 2 || weight.dim(1) != x.dim(-1)) {
    FailAt("linear_cross_entropy", s, loc,
           StrCat("weight ", weight.shape(), " does not fit input ", x.shape()));
  }
  const Tensor picks = targets.Reshape({targets.size()}, loc);
  const Tensor rows = x.Reshape({targets.size(), x.dim(-1)}, loc);
  AttrMap attrs = Attrs(options);
  attrs["chunk"] =
      options.chunk != 0 ? options.chunk : LossHeadChunk(targets.size(), weight.dim(0));
  const Tensors r =
      Op("linear_cross_entropy", {rows.In(s), weight.In(s), picks.In(s)}, std::move(attrs), loc);
  return MeanOverCounted(r[0].In(targets.scope()), picks.In(targets.scope()), options, loc);
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
