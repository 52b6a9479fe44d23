// Losses. A loss is a mean together with the number of things it is the mean of, so that
// micro-batches and ranks can be weighted by their token counts.
#pragma once

#include "frontend/dsl/model.h"

namespace stator::dsl {

struct Loss {
  Tensor mean;    // f32[]
  Tensor weight;  // f32[], how many tokens `mean` averages; undefined for a plain penalty
};

// Several losses at once: `a + 0.1 * b`. The sum keeps the weight of the first that has one; that
// weight then also combines the micro-batches' means of the others.
Loss operator+(const Loss& a, const Loss& b);
Loss operator*(double factor, const Loss& loss);

struct CrossEntropyOptions {
  int64_t ignore_index = -100;  // targets of this value are not counted
  double label_smoothing = 0;   // this much of the target's mass is spread over all classes
  double z_loss = 0;            // adds z_loss * logsumexp(logits)^2 (PaLM, section 5)
  int64_t chunk = 0;            // of LinearCrossEntropy: tokens at a time; 0: LossHeadChunk
};
// Mean over the counted targets of -log softmax(logits)[target]; 0 where no target counts.
// logits [.., V] of any float dtype, targets [..] i32.
Loss CrossEntropy(const Tensor& logits, const Tensor& targets,
                  const CrossEntropyOptions& options = {}, Location loc = Location::current());

// CrossEntropy of the logits x W^T, which are never in memory as a whole: they are computed for so
// many tokens at a time (`chunk`) and turn into their gradient at once. x [.., C], weight
// [V, C], targets [..] i32. The product belongs to x's scope, the mean to that of the targets.
Loss LinearCrossEntropy(const Tensor& x, const Tensor& weight, const Tensor& targets,
                        const CrossEntropyOptions& options = {},
                        Location loc = Location::current());

// Mean over all elements of (prediction - target)^2.
Loss MeanSquaredError(const Tensor& prediction, const Tensor& target,
                      Location loc = Location::current());

// Mean of `values` where `mask` (bool, same shape) holds; 0 where it nowhere does.
Loss MaskedMean(const Tensor& values, const Tensor& mask, Location loc = Location::current());

// A term without a count, such as a regularizer. f32[].
Loss Penalty(const Tensor& value);

}  // namespace stator::dsl
