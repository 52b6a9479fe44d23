// Deterministic inputs for a graph, drawn from what its ops' records say of their operands: indices
// in range, positive numbers for a log, masks, lengths. The same on every machine.
#pragma once

#include "ir/graph.h"
#include "ir/tensor.h"

#include <cmath>
#include <map>
#include <string>

namespace stator {

struct RandomOptions {
  uint64_t seed = 1;
  // Some floats fall on a coarse grid, so that equal elements occur. Off where kinks must not.
  bool ties = true;
  // Some floats are NaN, infinite, zero or -0.
  bool specials = false;
};

// SplitMix64 (Steele et al., OOPSLA 2014); the library's distributions differ between platforms.
class TestRandom {
 public:
  explicit TestRandom(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  int64_t Below(int64_t n) { return static_cast<int64_t>(Next() % static_cast<uint64_t>(n)); }
  double Uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(Next() >> 11) * 0x1p-53;
  }

 private:
  uint64_t state_;
};

inline double RandomFloat(TestRandom& random, Domain domain, const RandomOptions& options) {
  if (options.specials && random.Below(8) == 0) {
    static constexpr double kSpecials[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0};
    return kSpecials[random.Below(5)];
  }
  double v = random.Uniform(-2, 2);
  if (domain == Domain::kPositive) v = random.Uniform(0.25, 3);
  if (domain == Domain::kNonZero) v = random.Uniform(0.5, 2) * (random.Below(2) ? 1 : -1);
  if (options.ties && random.Below(3) == 0) v = std::round(v * 2) / 2;
  if (domain != Domain::kAny && v == 0) v = 0.5;
  return v;
}

inline int64_t RandomInteger(TestRandom& random, Domain domain) {
  // Now and then the full width, so that wrapping is seen.
  int64_t v = random.Below(8) == 0 ? static_cast<int64_t>(random.Next()) : random.Below(19) - 9;
  if (domain == Domain::kNonZero && v == 0) v = 3;
  if (domain == Domain::kPositive) v = 1 + random.Below(9);
  return v;
}

// A value for operand `i` of `node`.
inline Tensor RandomOperand(const Node& node, int i, TestRandom& random,
                            const RandomOptions& options) {
  const OpView op = node.view();
  const auto k = std::min<size_t>(i, node.op().operands.size() - 1);
  const Domain domain = node.op().operands[k].domain;
  Tensor t(op.type(i));
  int64_t segment = 0;
  for (int64_t j = 0; j < t.size(); ++j) {
    if (domain == Domain::kIndex) {
      const auto ignored = IgnoredIndex(op, i);
      t.SetInt(j, ignored && random.Below(4) == 0 ? *ignored : random.Below(IndexLimit(op, i)));
    } else if (domain == Domain::kLength) {
      t.SetInt(j, random.Below(IndexLimit(op, i) + 1));
    } else if (domain == Domain::kSegment) {
      segment = j % t.type.dim(-1) == 0 ? 0 : segment + (random.Below(3) == 0 ? 1 : 0);
      t.SetInt(j, segment);
    } else if (t.type.dtype == DType::kBool) {
      t.SetInt(j, random.Below(2));
    } else if (IsFloat(t.type.dtype)) {
      t.Set(j, RandomFloat(random, domain, options));
    } else {
      t.SetInt(j, RandomInteger(random, domain));
    }
  }
  return t;
}

// Values for every input and state of `graph`, each drawn for its first use.
inline std::map<std::string, Tensor> RandomInputs(const Graph& graph,
                                                  const RandomOptions& options = {}) {
  std::map<std::string, Tensor> inputs;
  TestRandom random(options.seed);
  for (const auto* list : {&graph.inputs(), &graph.states()}) {
    for (const Param& p : *list) {
      if (p.node->uses().empty()) {
        inputs.emplace(p.name, Tensor(p.node->type()));
        continue;
      }
      const Use use = p.node->uses().front();
      inputs.emplace(p.name, RandomOperand(*use.node, use.operand, random, options));
    }
  }
  return inputs;
}

}  // namespace stator
