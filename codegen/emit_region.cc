#include "codegen/emit_region.h"

#include "codegen/scalar.h"
#include "ir/base/error.h"
#include "ir/facts.h"
#include "ir/views.h"

#include <algorithm>
#include <map>

namespace stator {
std::string FoldOp(const Node& fold) {
  static const std::map<std::string, std::string> kOps = {
      {"sum", "st_sum"}, {"prod", "st_prod"}, {"max", "st_maximum"},        {"min", "st_minimum"},
      {"any", "st_any"}, {"all", "st_all"},   {"logsumexp", "st_logsumexp"}};
  return StrCat(kOps.at(fold.view().Str("kind")), "<", ComputeCType(fold.type().dtype), ">");
}

std::string FoldType(const Node& fold) { return FoldOp(fold) + "::acc"; }

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
    if (n->op_class() == OpClass::kContraction) parts.product = n;
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
    if (PicksFromRow(parts.space, *n) && order.Of(n) == 0) parts.picks.push_back(n->result());
    for (const Value& v : n->operands()) {
      if (v)
        parts.wide_index =
            parts.wide_index || IsHuge(v.type()) || IsHuge(ResolveView(v).base.type());
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
      if (IsAssembled(*n)) {
        parts.assembled.push_back(n);
      } else {
        parts.full_outputs.push_back(n->result());
      }
      last = std::max(last, order.Of(n));
    }
  }
  parts.sweeps = last + 1;
  parts.row_folds.resize(parts.sweeps);
  return parts;
}

void StoreFull(ElementEmitter& emitter, const RegionParts& parts, const IndexExpr& full) {
  for (const Value& v : parts.full_outputs) emitter.EmitAndStore(v, full);
  for (const Node* concat : parts.assembled) {
    const int axis = concat->view().Axis("axis");
    const Dims strides = DenseStrides(concat->type().shape);
    int64_t at = 0;
    for (const Value& part : concat->operands()) {
      const IndexExpr window = Strided(emitter.vars(), full, part.shape(), strides, at);
      emitter.EmitAndStore(part, full, const_cast<Node*>(concat)->result(), window);
      at += part.shape()[axis] * strides[axis];
    }
  }
}

IndexExpr BeginEpilogue(ElementEmitter& emitter, const RegionParts& parts, int vector,
                        const std::string& slot, const std::string& slots) {
  const Value product = parts.product->result();
  const int64_t m = product.shape()[0], n = product.shape()[1];
  IndexSpace& vars = emitter.vars();
  const IndexExpr r = vars.AddVar("r", m, kChunkDepth),
                  e = vars.AddVar("e", n / vector, kInvariant);
  const IndexExpr lane = vars.AddVar("v", vector, kLaneDepth), full = r * n + e * vector + lane;
  ElementEmitter::Options options;
  options.language = Language::kCuda;
  options.space = parts.space, options.inside = parts.inside;
  options.vector = vector, options.lane_var = lane.terms[0].first;
  options.early = true;
  options.slot = slot, options.slots = slots;
  emitter.SetOptions(options);
  emitter.Define(product, full, "p[v]", kLaneDepth);
  StoreFull(emitter, parts, full);
  return full;
}

EmittedKernel EmitRegion(std::span<Node* const> nodes, Language language,
                         const CudaLimits& limits) {
  const RegionParts parts = AnalyzeRegion(nodes);
  EmittedKernel kernel;
  if (parts.product != nullptr) {
    kernel = parts.product->HasFact(fact::kTile) ? EmitSmallProduct(parts) : EmitMatMul(parts);
  } else {
    kernel = language == Language::kCpp ? EmitCpp(parts) : EmitCuda(parts, limits);
  }
  kernel.traffic = TrafficOf(parts);
  return kernel;
}

}  // namespace stator
