// What ops that draw random bits share.
#pragma once

#include "ir/builder.h"

namespace stator {

// Throws `Error` unless operand `i` is a u32[2] seed and operand i + 1 an i64[] step.
void CheckSeed(const OpView& op, int i);
// Throws `Error` unless 0 <= rate < 1.
void CheckDropoutRate(const OpView& op, double rate);

// An element is kept if its bits are at least this.
int64_t DropoutThreshold(double rate);
// bool[shape]: true where an element is kept.
Value DropoutMask(Builder& b, Value seed, Value step, const Dims& shape, int64_t stream,
                  double rate);

}  // namespace stator
