#include "frontend/dsl/schedule.h"

#include "ir/base/error.h"

#include <numbers>

namespace stator::dsl {
namespace {

// `rate` after a warm-up to `peak`; numbers are steps.
Value WithWarmup(Builder& b, Value step, int64_t warmup, double peak, Value rate) {
  if (warmup == 0) return rate;
  const Value rising = b.Mul(b.Add(step, 1), peak / static_cast<double>(warmup + 1));
  const Value warm = b.Lt(step, b.Constant(static_cast<double>(warmup), DType::kF32));
  return b.Select(warm, rising, rate);
}

// How far `step` is on the way from `begin` to `end`, clamped to [0, 1].
Value Progress(Builder& b, Value step, int64_t begin, int64_t end) {
  const Value way =
      b.Div(b.Sub(step, static_cast<double>(begin)), static_cast<double>(end - begin));
  return b.Elementwise("clamp", {way}, {{"min", 0.0}, {"max", 1.0}});
}

void CheckSpan(const char* name, int64_t warmup, int64_t begin, int64_t total) {
  if (warmup >= 0 && begin >= warmup && total > begin) return;
  Fail(ErrorCode::kInvalidArgument, name, ": takes 0 <= warmup < total, got warmup ", warmup,
       ", total ", total, begin == warmup ? "" : StrCat(" with the decay from ", begin));
}

}  // namespace

Schedule::Schedule(double rate)
    : build_([rate](Builder& b, Value) { return b.Constant(rate, DType::kF32); }) {}

Value ConstantRate::operator()(Builder& b, Value step) const {
  if (warmup < 0) Fail(ErrorCode::kInvalidArgument, "constant rate: negative warmup ", warmup);
  return WithWarmup(b, step, warmup, rate, b.Constant(rate, DType::kF32));
}

Value LinearDecay::operator()(Builder& b, Value step) const {
  CheckSpan("linear decay", warmup, warmup, total);
  const Value r = Progress(b, step, warmup, total);
  return WithWarmup(b, step, warmup, peak, b.Add(b.Mul(r, min - peak), peak));
}

Value Cosine::operator()(Builder& b, Value step) const {
  CheckSpan("cosine", warmup, warmup, total);
  const Value r = Progress(b, step, warmup, total);
  const Value wave = b.Add(b.Elementwise("cos", {b.Mul(r, std::numbers::pi)}), 1);
  return WithWarmup(b, step, warmup, peak, b.Add(b.Mul(wave, 0.5 * (peak - min)), min));
}

Value WarmupStableDecay::operator()(Builder& b, Value step) const {
  const int64_t begin = total - decay;
  CheckSpan("warm-up, stable, decay", warmup, begin, total);
  const Value r = Progress(b, step, begin, total);
  return WithWarmup(b, step, warmup, peak, b.Add(b.Mul(r, min - peak), peak));
}

}  // namespace stator::dsl
