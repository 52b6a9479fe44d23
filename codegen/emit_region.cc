#include "codegen/emit_region.h"

#include <algorithm>
#include <map>

#include "codegen/scalar.h"
#include "ir/base/error.h"
#include "ir/views.h"

namespace stator {
namespace {

// The sweep after which a node's value can be computed: folds end a sweep.
class SweepOrder {
 public:
  explicit SweepOrder(const std::set<const Node*>& inside) : inside_(inside) {}

  int Of(const Node* node) {
    if (const auto it = known_.find(node); it != known_.end()) return it->second;
    int sweep = 0;
    for (const Value& v : node->operands()) {
      if (!v || IsOutside(v.node)) continue;
      const bool fold = v.node->Is("fold") && inside_.contains(v.node);
      sweep = std::max(sweep, Of(v.node) + (fold ? 1 : 0));
    }
    return known_[node] = sweep;
  }

 private:
  // Views and inline nodes belong to no region, but may lead back into this one.
  bool IsOutside(const Node* n) const {
    if (inside_.contains(n)) return false;
    return n->Is("input") || n->Is("state") || RegionOf(*n) >= 0;
  }
  const std::set<const Node*>& inside_;
  std::map<const Node*, int> known_;
};

bool IsHuge(const Type& t) { return t.NumElements() >= int64_t{1} << 31; }

}  // namespace

std::string Indent(const std::string& text, int spaces) {
  std::string out;
  const std::string pad(spaces, ' ');
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const size_t stop = end == std::string::npos ? text.size() : end;
    if (stop > begin && text[begin] != '#') out += pad;
    out.append(text, begin, stop - begin);
    out += '\n';
    begin = stop + 1;
  }
  return out;
}

std::string FoldOp(const Node& fold) {
  static const std::map<std::string, std::string> kOps = {
      {"sum", "st_sum"}, {"prod", "st_prod"},  {"max", "st_maximum"},
      {"min", "st_minimum"}, {"any", "st_any"}, {"all", "st_all"}};
  return StrCat(kOps.at(fold.view().Str("kind")), "<", ComputeCType(fold.type().dtype), ">");
}

RegionParts AnalyzeRegion(std::span<Node* const> nodes) {
  RegionParts parts;
  parts.space = SpaceOfRegion(nodes);
  parts.inside.insert(nodes.begin(), nodes.end());
  SweepOrder order(parts.inside);
  const auto sweep = [&](int s) -> std::vector<Node*>& {
    if (static_cast<int>(parts.row_folds.size()) <= s) parts.row_folds.resize(s + 1);
    return parts.row_folds[s];
  };
  int last = 0;
  for (Node* n : nodes) {
    if (IsInline(*n)) continue;
    const Place place = PlaceOf(parts.space, *n);
    if (n->Is("fold")) {
      if (place == Place::kRow) {
        sweep(order.Of(n)).push_back(n);
      } else {
        parts.column_folds.push_back(n);
      }
      last = std::max(last, order.Of(n));
    }
    for (const Value& v : n->operands()) {
      if (v) parts.wide_index = parts.wide_index || IsHuge(v.type()) || IsHuge(ResolveView(v).base.type());
    }
    parts.wide_index = parts.wide_index || IsHuge(n->type());
    if (!IsMaterialized(n->result()) || n->Is("fold")) {
      if (n->Is("fold") && place == Place::kRow && IsMaterialized(n->result())) {
        parts.row_outputs.push_back(n->result());
      }
      continue;
    }
    if (place == Place::kRow) {
      parts.row_outputs.push_back(n->result());
    } else {
      STATOR_CHECK(place == Place::kFull, n->op().name, " does not fit ", parts.space.ToString());
      parts.full_outputs.push_back(n->result());
      last = std::max(last, order.Of(n));
    }
  }
  parts.sweeps = last + 1;
  parts.row_folds.resize(parts.sweeps);
  return parts;
}

EmittedKernel EmitRegion(std::span<Node* const> nodes, Language language) {
  const RegionParts parts = AnalyzeRegion(nodes);
  return language == Language::kCpp ? EmitCpp(parts) : EmitCuda(parts);
}

}  // namespace stator
