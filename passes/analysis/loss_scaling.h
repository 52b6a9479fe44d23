// Dynamic loss scaling. f16 has no gradients below 6e-8 and none above 65504, so backward starts
// from the loss times a scale, and the optimizer divides by it before anything looks at a gradient.
//
//   state loss_scale: f32[]               a power of two, so that scaling and unscaling are exact
//   state loss_scale.good: i64[]          updates applied since the scale last changed
//   state skipped_updates: i64[]          updates skipped for a gradient that was not finite
//
// After a skipped update the scale is halved, down to kSmallestLossScale, and the update is not
// counted as a step: schedule, moments and parameters stay. After `loss_scale_interval` applied
// ones it is doubled, up to kLargestLossScale. All of it is in the graph: no host is asked.
#pragma once

#include "passes/pass.h"

namespace stator {

inline constexpr double kSmallestLossScale = 1;
inline constexpr double kLargestLossScale = 16777216;  // 2^24

// Throws `Error` unless `scale` is a power of two within these limits.
void CheckLossScale(double scale);

// Whether a program of these options needs it: where products compute in f16.
bool ScalesLoss(const PassOptions& options);

// The graph's loss_scale, declared where it is not, after CheckLossScale of its first value.
Value LossScale(Graph& graph, const PassOptions& options);

// What follows from `finite` (bool[]): the next scale and the counters, and output loss_scale, the
// scale that this update used.
void AdjustLossScale(Builder& b, Value scale, Value finite, const PassOptions& options);

}  // namespace stator
