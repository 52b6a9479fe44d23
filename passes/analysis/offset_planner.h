// Offsets for buffers with known lifetimes, so that buffers alive together do not overlap and the
// whole is as small as can be: dynamic storage allocation with all requests known beforehand.
#pragma once

#include <cstdint>
#include <vector>

namespace stator {

// Alive from step `first` to step `last`, both included. `bytes` are rounded up to the alignment of
// buffers by the planner.
struct Interval {
  int first = 0, last = 0;
  int64_t bytes = 0;
  int64_t offset = 0;  // the answer
};

// The bytes alive at each step, aligned; no plan can be smaller than the largest.
std::vector<int64_t> LiveBytes(const std::vector<Interval>& intervals);

// Sets every offset and returns the size of the whole. Deterministic.
int64_t PlanOffsets(std::vector<Interval>& intervals);

}  // namespace stator
