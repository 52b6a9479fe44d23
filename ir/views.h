// Views: values without storage of their own. The `lower-views` pass marks movement nodes whose
// result is a strided window on their operand's storage; everyone else resolves them here.
#pragma once

#include "ir/graph.h"

#include <vector>

namespace stator {

// A strided window on the storage of `base`, a value that is not a view.
struct View {
  Value base;
  int64_t at = 0;  // elements from the start of base
  Dims strides;    // elements, one an axis of the viewing value
};

// Whether the node carries the `view` fact.
bool IsViewNode(const Node& node);

// The node whose library call computes `node` as well (fact `joins`): the contraction to whose
// result a bias is added, the attention whose results a concat puts side by side. Null for others.
Node* JoinedCall(const Node& node);

// Whether the node, a matrix product, is computed by its region's own kernel rather than a library.
bool IsComputedByRegion(const Node& node);

// Follows view nodes to the value that owns the storage; a dense view when `v` owns it itself. The
// result of a library call that is written into a concat is a window on the concat.
View ResolveView(Value v);

bool IsDense(const View& view, const Dims& shape);

// The region id of a node, -1 for views, inputs, states and constants that are emitted inline.
int RegionOf(const Node& node);

// Uses of `v` and of every view on it, by nodes that are not views themselves.
std::vector<Use> UsesThroughViews(Value v);
// Whether `is(use)` holds for one of them.
template <typename Is>
bool AnyUseThroughViews(Value v, const Is& is) {
  for (const Use& use : v.node->uses()) {
    if (use.node->operand(use.operand) != v) continue;
    const bool found = use.node->is_view() ? AnyUseThroughViews(use.node->result(), is) : is(use);
    if (found) return true;
  }
  return false;
}
// Whether `v` or a view on it is an output or a next state.
bool IsUsedOutsideThroughViews(Value v);

// Results of region nodes that need storage: used outside their own region, or outside the graph.
// Library calls need it for all their results but those that a joined node takes over.
bool IsMaterialized(Value v);

}  // namespace stator
