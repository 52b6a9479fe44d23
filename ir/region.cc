#include "ir/region.h"

#include "ir/base/error.h"
#include "ir/facts.h"
#include "ir/views.h"

#include <algorithm>

namespace stator {

std::string RegionSpace::ToString() const {
  static constexpr const char* kNames[] = {"pointwise", "row", "column", "row-column"};
  return StrCat(kNames[static_cast<int>(kind)], '[', outer, ',', n, ',', inner, "]/", chunk);
}

FoldShape FoldShapeOf(const Node& fold) {
  const Dims& s = fold.operand(0).shape();
  return {s[0], s[1], s[2], fold.view().Int("chunk")};
}

namespace {

// Elements of the space that the node fills.
int64_t ElementsOf(const Node& node) {
  return (IsAssembled(node) ? node.operand(0).type() : node.type()).NumElements();
}

}  // namespace

RegionSpace SpaceOfNode(const Node& node) {
  if (!node.Is("fold")) return {SpaceKind::kPointwise, 1, ElementsOf(node), 1, 1};
  const FoldShape f = FoldShapeOf(node);
  const int64_t chunk = f.chunk < f.n ? f.chunk : f.n;
  return {f.is_row() ? SpaceKind::kRow : SpaceKind::kColumn, f.outer, f.n, f.inner, chunk};
}

namespace {

// Rows of `row` seen as the [n, inner] plane of `column`.
bool JoinRowColumn(const RegionSpace& row, const RegionSpace& column, RegionSpace* joint) {
  if (row.chunks() != 1 || column.outer != 1) return false;
  if (row.outer != column.n || row.n != column.inner) return false;
  *joint = column;
  joint->kind = SpaceKind::kRowColumn;
  return true;
}

}  // namespace

bool CombineSpaces(RegionSpace* a, const RegionSpace& b) {
  if (*a == b) return true;
  const auto kind = [](const RegionSpace& s) { return s.kind; };
  if (kind(*a) == SpaceKind::kPointwise && kind(b) == SpaceKind::kPointwise) return false;
  if (kind(*a) == SpaceKind::kPointwise || kind(b) == SpaceKind::kPointwise) {
    const RegionSpace& folds = kind(*a) == SpaceKind::kPointwise ? b : *a;
    const int64_t points = (kind(*a) == SpaceKind::kPointwise ? *a : b).elements();
    if (points != folds.elements() && !(folds.has_rows() && points == folds.rows())) return false;
    *a = folds;
    return true;
  }
  RegionSpace joint;
  const auto joined = [&](const RegionSpace& row, const RegionSpace& column) {
    return kind(row) == SpaceKind::kRow && kind(column) == SpaceKind::kColumn &&
           JoinRowColumn(row, column, &joint);
  };
  const auto contained = [&](const RegionSpace& both, const RegionSpace& part) {
    if (kind(both) != SpaceKind::kRowColumn) return false;
    if (kind(part) == SpaceKind::kRow) {
      return part.chunks() == 1 && part.outer == both.n && part.n == both.inner;
    }
    RegionSpace as_column = both;
    as_column.kind = SpaceKind::kColumn;
    return part == as_column;
  };
  if (contained(*a, b)) return true;
  if (contained(b, *a)) {
    *a = b;
    return true;
  }
  if (joined(*a, b) || joined(b, *a)) {
    *a = joint;
    return true;
  }
  return false;
}

bool IsInline(const Node& node) { return node.HasFact(fact::kInline); }

bool IsAssembled(const Node& node) { return node.HasFact(fact::kAssembled); }

bool CallsFunction(const Node& node) {
  if (node.Is("fold")) return node.view().Str("kind") == "logsumexp";
  if (node.op().reduce == ReduceKind::kLogSumExp) return true;
  for (const char* f :
       {"st_exp", "st_log", "st_tanh", "st_sigmoid", "st_erf", "st_sin", "st_cos", "st_pow"}) {
    if (node.op().scalar.find(f) != std::string::npos) return true;
  }
  return false;
}

RegionSpace SpaceOfRegion(std::span<Node* const> nodes) {
  // Folds first: they fix the space that pointwise nodes must fit.
  bool started = false;
  RegionSpace space;
  for (const bool folds : {true, false}) {
    for (const Node* n : nodes) {
      if (n->Is("fold") != folds || IsInline(*n)) continue;
      const RegionSpace own = SpaceOfNode(*n);
      if (!started) {
        space = own;
        started = true;
        continue;
      }
      STATOR_CHECK(CombineSpaces(&space, own), "region space ", space.ToString(), " does not hold ",
                   n->op().name, " ", own.ToString(), " (", n->scope(), ")");
    }
  }
  return space;
}

RegionIndex IndexOfRegion(IndexSpace& vars, const RegionSpace& space) {
  RegionIndex at;
  switch (space.kind) {
    case SpaceKind::kPointwise:
      at.full = vars.AddVar("i", space.n, 1);
      break;
    case SpaceKind::kRow: {
      const IndexExpr outer = vars.AddVar("o", space.outer, 0);
      const IndexExpr chunk = vars.AddVar("b", space.chunks(), 0);
      at.full = outer * space.n + chunk * space.chunk + vars.AddVar("j", space.chunk, 1);
      at.row = outer * space.chunks() + chunk;
      break;
    }
    case SpaceKind::kColumn:
    case SpaceKind::kRowColumn: {
      const IndexExpr row =
          vars.AddVar("o", space.outer, 0) * space.n + vars.AddVar("r", space.n, 0);
      at.full = row * space.inner + vars.AddVar("j", space.inner, 1);
      at.row = row;
      break;
    }
  }
  return at;
}

Place PlaceOf(const RegionSpace& space, const Node& node) {
  if (node.Is("fold")) {
    const FoldShape f = FoldShapeOf(node);
    if (!space.has_rows() || !f.is_row()) return Place::kChunkResult;
    return Place::kRow;
  }
  const int64_t elements = ElementsOf(node);
  if (elements == space.elements()) return Place::kFull;
  if (space.has_rows() && elements == space.rows()) return Place::kRow;
  return Place::kNowhere;
}

bool PicksFromRow(const RegionSpace& space, const Node& node) {
  if (!node.Is("take_along") || space.kind != SpaceKind::kRow || space.chunks() != 1) return false;
  const Type& data = node.operand(0).type();
  return node.view().Axis("axis") == data.rank() - 1 && data.dim(-1) == space.n &&
         data.NumElements() == space.elements() && node.type().dim(-1) == 1;
}

int SweepOrder::Of(const Node* node) {
  if (const auto it = known_.find(node); it != known_.end()) return it->second;
  int sweep = 0;
  for (const Value& v : node->operands()) {
    if (!v || IsOutside(v.node)) continue;
    const bool fold = v.node->Is("fold") && inside_.contains(v.node);
    sweep = std::max(sweep, Of(v.node) + (fold ? 1 : 0));
  }
  return known_[node] = sweep;
}

// Views and inline nodes belong to no region, but may lead back into this one.
bool SweepOrder::IsOutside(const Node* n) const {
  if (inside_.contains(n)) return false;
  return n->Is("input") || n->Is("state") || RegionOf(*n) >= 0;
}

}  // namespace stator
