// Where each node of an f32 graph stands under mixed precision; mixed_precision.cc acts on it.
#pragma once

#include "ir/graph.h"
#include "passes/pass.h"

#include <set>

namespace stator {

enum class Place {
  kWide,         // f32 in and out: the update, losses, scalars, what the user keeps in f32
  kGroup,        // part of the gradient of an op that computes in f32
  kNarrow,       // wants low-precision operands: contractions, attention, composites
  kElementwise,  // computes in f32 between operands and results that may be low
  kReduce,       // f32 in and out; what it reads may be a value never rounded
  kMovement,     // takes the dtype in which its result is wanted
  kGather,       // moves elements by index: reads the low form where there is one
  kFollow,       // anything else: low if an operand is low only, f32 otherwise
};

class PrecisionPolicy {
 public:
  PrecisionPolicy(const Graph& graph, const PassOptions& options);

  Place PlaceOf(const Node& n) const { return places_[n.id()]; }
  int64_t GroupOf(const Node& n) const;  // -1 outside of groups
  // Whether `v` ends in a parameter's gradient, and so is born f32.
  bool IsParameterGradient(Value v) const { return parameter_gradients_.contains(v); }
  // Whether one node alone, of the same phase, reads `v`, and computes in f32: then `v` is not
  // rounded.
  bool StaysInside(Value v) const;
  // Whether a node in a scope that the user keeps in f32 reads `v`.
  bool FeedsKept(Value v) const;

 private:
  Place Classify(const Node& n) const;
  void FindParameterGradients();

  const Graph& graph_;
  const PassOptions& options_;
  std::vector<Place> places_;  // by node id
  std::vector<bool> kept_;     // by node id: in a scope that the user keeps in f32
  std::set<Value> parameter_gradients_;
};

}  // namespace stator
