// What nodes cost, from their records: arithmetic, and bytes that move if nothing is fused.
#pragma once

#include "ir/graph.h"
#include "ir/target.h"

namespace stator {

struct Cost {
  double flops = 0;        // a fused multiply-add counts as two
  int64_t bytes_read = 0;  // of operands as stored: a broadcast reads its source once
  int64_t bytes_written = 0;

  int64_t bytes() const { return bytes_read + bytes_written; }
  Cost& operator+=(const Cost& other);
};

Cost CostOf(const Node& node);
Cost CostOf(const Graph& graph);  // the sum over its nodes

// The least seconds `cost` can take: the slower of arithmetic at the peak of `dtype` and traffic at
// the bandwidth. 0 where the target knows neither.
double RooflineSeconds(const Cost& cost, DType dtype, const Target& target);

}  // namespace stator
