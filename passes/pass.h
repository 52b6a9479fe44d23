// A pass is a named function over a graph, with what it needs and what it promises.
#pragma once

#include "ir/graph.h"
#include "ir/target.h"
#include "ir/training.h"

#include <functional>
#include <string>
#include <vector>

namespace stator {

enum class Numerics {
  kDefault,  // the optional `tolerance` rewrites of DESIGN section 5 are on
  kStrict,   // they are off
};

// Our own matrix products instead of a library's, for fuse-products.
enum class OwnMatmul { kNever, kWhereFaster, kWherePossible };

struct PassOptions {
  const Target* target = nullptr;            // null in text tests: a generic CPU
  const OptimizerSpec* optimizer = nullptr;  // for apply-optimizer
  DType compute_dtype = DType::kF32;         // f32 leaves mixed-precision off
  double loss_scale = 65536;                 // the first one, where compute_dtype is f16
  int64_t loss_scale_interval = 2000;        // applied updates until it doubles; 0: it stays
  int micro_batches = 1;
  bool fuse = true;   // false: one region a node
  bool fast = false;  // admits non-deterministic kernels
  Numerics numerics = Numerics::kDefault;
  OwnMatmul own_matmul = OwnMatmul::kWhereFaster;
  int64_t recompute_bytes = 0;        // of activations that the backward pass computes anew
  std::vector<std::string> keep_f32;  // scope globs that stay f32 under mixed precision
  bool verify_each_pass = true;       // false: only before the first pass and after the last
};

struct Pass {
  std::string name;      // kebab-case: "fuse-regions"
  std::string why_here;  // the order constraint, one sentence
  std::function<void(Graph&, const PassOptions&)> run;
};

struct PassTiming {
  std::string name;
  double seconds = 0;
  int nodes_before = 0, nodes_after = 0;
};

class PassManager {
 public:
  explicit PassManager(std::vector<Pass> passes) : passes_(std::move(passes)) {}
  // Runs every pass in order and verifies as `options` say. `on_dump`, when set, sees the graph's
  // text before the first pass (named "input") and after every pass.
  std::vector<PassTiming> Run(
      Graph& graph, const PassOptions& options,
      const std::function<void(const std::string& pass, const Graph&)>& on_dump = {}) const;
  const std::vector<Pass>& passes() const { return passes_; }

 private:
  std::vector<Pass> passes_;
};

}  // namespace stator
