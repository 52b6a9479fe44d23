// Learning-rate schedules: functions that build the rate as a value of the graph, f32[], from the
// step state (f32[], 0 for the first update). The host takes no part in them.
//
// Warm-up over W > 0 steps is peak * (step + 1) / (W + 1): the first update is not lost, and update
// W is the first at the peak. Past `total` the rate stays at `min`.
#pragma once

#include "ir/builder.h"

#include <concepts>
#include <functional>
#include <utility>

namespace stator::dsl {

// Any of the structs below, a number, or a function of one's own.
class Schedule {
 public:
  Schedule(double rate);
  template <typename F>
  requires std::is_invocable_r_v<Value, const F&, Builder&, Value> Schedule(F build)
      : build_(std::move(build)) {}
  Value operator()(Builder& b, Value step) const { return build_(b, step); }

 private:
  std::function<Value(Builder&, Value)> build_;
};

struct ConstantRate {
  double rate = 1e-3;
  int64_t warmup = 0;
  Value operator()(Builder& b, Value step) const;
};

// From `peak` in a straight line to `min` at `total`.
struct LinearDecay {
  double peak = 1e-3;
  int64_t warmup = 0;
  int64_t total = 0;
  double min = 0;
  Value operator()(Builder& b, Value step) const;
};

// min + (peak - min) * (1 + cos(pi * r)) / 2, with r from 0 at `warmup` to 1 at `total`.
struct Cosine {
  double peak = 1e-3;
  int64_t warmup = 0;
  int64_t total = 0;
  double min = 0;
  Value operator()(Builder& b, Value step) const;
};

// `peak` until `decay` steps before `total`, then a straight line to `min` (Hu et al. 2024).
struct WarmupStableDecay {
  double peak = 1e-3;
  int64_t warmup = 0;
  int64_t total = 0;
  int64_t decay = 0;
  double min = 0;
  Value operator()(Builder& b, Value step) const;
};

}  // namespace stator::dsl
