#include "passes/analysis/cost.h"

#include <algorithm>

namespace stator {

Cost& Cost::operator+=(const Cost& other) {
  flops += other.flops;
  bytes_read += other.bytes_read;
  bytes_written += other.bytes_written;
  return *this;
}

Cost CostOf(const Node& node) {
  Cost cost;
  // Sources are read where they are used; a record without a figure does one operation an element
  // of each operand, and movement none.
  if (node.op().flops) {
    cost.flops = node.op().flops(node.view());
  } else if (node.op_class() != OpClass::kMovement) {
    for (const Value& v : node.operands()) {
      if (v) cost.flops += static_cast<double>(v.type().NumElements());
    }
  }
  for (int i = 0; i < node.num_operands(); ++i) {
    const Value v = node.operand(i);
    const auto earlier = node.operands().first(i);
    if (!v || std::find(earlier.begin(), earlier.end(), v) != earlier.end()) continue;
    int64_t bytes = v.type().Bytes();
    // Slices and gathers read no more than they write.
    if (node.op_class() == OpClass::kMovement || node.op_class() == OpClass::kGather) {
      bytes = std::min(bytes, node.type().Bytes());
    }
    cost.bytes_read += bytes;
  }
  if (node.op_class() == OpClass::kSource) return cost;
  for (int i = 0; i < node.num_results(); ++i) cost.bytes_written += node.type(i).Bytes();
  return cost;
}

Cost CostOf(const Graph& graph) {
  Cost cost;
  for (const Node* n : graph.Nodes()) cost += CostOf(*n);
  return cost;
}

double RooflineSeconds(const Cost& cost, DType dtype, const Target& target) {
  const double peak = target.peak_flops(dtype), bandwidth = target.bandwidth();
  const double arithmetic = peak > 0 ? cost.flops / peak : 0;
  const double traffic = bandwidth > 0 ? static_cast<double>(cost.bytes()) / bandwidth : 0;
  return std::max(arithmetic, traffic);
}

}  // namespace stator
