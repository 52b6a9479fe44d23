// The iteration space of a fused region, derived from its nodes: what the fusion pass promises and
// the emitters rely on.
#pragma once

#include "ir/index_expr.h"

#include <map>
#include <set>
#include <span>
#include <string>

namespace stator {

// Whether an int cannot count a tensor's elements.
inline bool IsHuge(const Type& t) { return t.NumElements() >= int64_t{1} << 31; }

// Elements are seen as [outer, n, inner]; `n` is folded in chunks of `chunk`.
//   kPointwise  no folds; n = all elements
//   kRow        folds along contiguous rows (inner = 1): one row is one chunk of one outer index
//   kColumn     folds along n with inner > 1
//   kRowColumn  rows [n, inner] that are folded along inner as rows and along n in chunks
enum class SpaceKind { kPointwise, kRow, kColumn, kRowColumn };

struct RegionSpace {
  SpaceKind kind = SpaceKind::kPointwise;
  int64_t outer = 1, n = 1, inner = 1, chunk = 1;

  int64_t elements() const { return outer * n * inner; }
  int64_t chunks() const { return chunk == 0 ? 0 : (n + chunk - 1) / chunk; }
  // Of a row space: how many rows there are, and the longest one's length.
  int64_t rows() const { return kind == SpaceKind::kRowColumn ? n : outer * chunks(); }
  int64_t row_length() const { return kind == SpaceKind::kRowColumn ? inner : chunk; }
  bool has_rows() const { return kind == SpaceKind::kRow || kind == SpaceKind::kRowColumn; }
  bool operator==(const RegionSpace&) const = default;
  std::string ToString() const;
};

// A fold of op `fold`: [outer, n, inner] -> [outer, chunks, inner].
struct FoldShape {
  int64_t outer, n, inner, chunk;
  bool is_row() const { return inner == 1; }
};
FoldShape FoldShapeOf(const Node& fold);

// The space that holds both, false when there is none. `a` may be changed to it.
bool CombineSpaces(RegionSpace* a, const RegionSpace& b);
// Whether the node is computed anew wherever its region reads it, at whatever element: it has no
// place in the iteration space and never needs storage.
bool IsInline(const Node& node);
// Whether the node is a concat of parts of one size each, computed part by part: its space is that
// of one part, and an element of the space is stored once a part.
bool IsAssembled(const Node& node);
// Whether the node evaluates a function of many instructions: to compute it anew costs more than to
// read its value.
bool CallsFunction(const Node& node);
RegionSpace SpaceOfNode(const Node& node);
RegionSpace SpaceOfRegion(std::span<Node* const> nodes);

// A value of the region lives either on every element or once a row.
enum class Place { kFull, kRow, kChunkResult, kNowhere };
Place PlaceOf(const RegionSpace& space, const Node& node);

// Whether the node reads a single element of a row, at a computed place.
bool PicksFromRow(const RegionSpace& space, const Node& node);

// The sweep after which a node's value can be computed: folds end a sweep.
class SweepOrder {
 public:
  explicit SweepOrder(const std::set<const Node*>& inside) : inside_(inside) {}
  int Of(const Node* node);

 private:
  bool IsOutside(const Node* n) const;
  const std::set<const Node*>& inside_;
  std::map<const Node*, int> known_;
};

// Where a node of the region is computed.
struct RegionIndex {
  IndexExpr full;  // row-major position of the current element
  IndexExpr row;   // index of the current row
};

// Loop variables over the whole space, for comparing accesses (emitters make their own).
RegionIndex IndexOfRegion(IndexSpace& vars, const RegionSpace& space);

}  // namespace stator
