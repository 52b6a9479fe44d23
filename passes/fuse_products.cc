// fuse-products: gives a matrix product to the kernel of a region that reads it element by element,
// where our own product with that region as its epilogue beats the library's and a kernel after it:
// one pass over memory less. Such a product has fact `impl` "region" (codegen/emit_matmul.cc).
//
// Only for GPUs of sm_90, whose instructions the kernel is written in. Off under strict numerics
// and without
// --own_matmul: the sums over K come in another order than a library's. A fold in the region keeps
// its tree.
//
// A product of few elements gets fact `tile` as well and another kernel
// (codegen/emit_small_product.cc); it has that without a region to take it, too.
#include "ir/base/error.h"
#include "ir/facts.h"
#include "ir/region.h"
#include "ir/views.h"
#include "passes/analysis/small_product.h"
#include "passes/passes.h"

#include <functional>
#include <map>
#include <optional>
#include <set>

namespace stator {
namespace {

// What the kernel can do.
constexpr int64_t kTileRows =
    128;  // of a tile; with a fold, M is a multiple; the fold's chunk is this, or half
constexpr int64_t kColumns = 64;       // N is a multiple of it,
constexpr int64_t kFoldColumns = 128;  // with a fold of this,
constexpr int64_t kStride = 8;         // K a multiple of it: 16 bytes
constexpr int64_t kReadBytes = 4;  // that the epilogue reads an element of the product: registers

// Where it is used; measured on an H200 at K 768 (docs/notes/own-matmul.md): long enough sums for
// the epilogue to hide behind, not so long that the library's better loop wins more than the pass
// over memory costs; and more tiles than multiprocessors by a factor that makes the last turn
// cheap.
constexpr int64_t kLeastDepth = 512, kMostDepth = 4096;
constexpr int64_t kLeastElements = 4 * 132 * kTileRows * 192;

class Fuser {
 public:
  Fuser(Graph& graph, const PassOptions& options)
      : graph_(graph),
        wish_(options.own_matmul),
        fuse_(options.fuse),
        small_(TakesSmallProducts(options)) {
    place_.assign(graph.max_id(), 0);
    int place = 0;
    for (Node* node : graph.Nodes()) {
      place_[node->id()] = place++;
      const int region = RegionOf(*node);
      if (region < 0) continue;
      regions_[region].push_back(node);
      last_[region] = place_[node->id()];
    }
  }

  void Run() {
    for (Node* node : graph_.Nodes()) {
      if (!IsEligible(*node)) continue;
      tile_ = small_ ? SmallTileOf(*node, 0) : std::nullopt;
      if (!tile_ && !IsFaster(*node)) continue;
      const int region = fuse_ ? FindRegion(*node) : -1;
      if (region < 0 && !tile_) continue;
      node->SetFact(fact::kImpl, std::string("region"));
      if (tile_) node->SetFact(fact::kTile, *tile_);
      if (region < 0) continue;
      regions_.erase(RegionOf(*node));
      node->SetFact(fact::kRegion, int64_t{region});
      regions_[region].insert(regions_[region].begin(), node);
    }
  }

 private:
  bool IsEligible(const Node& node) const {
    if (node.op_class() != OpClass::kContraction || node.HasFact(fact::kEpilogue) ||
        node.type().rank() != 2)
      return false;
    const Value a = node.operand(0), b = node.operand(1);
    for (const DType d : {a.dtype(), b.dtype(), node.type().dtype}) {
      if (d != DType::kBF16) return false;
    }
    const int64_t m = node.type().shape[0], n = node.type().shape[1], k = a.shape()[1];
    if (m == 0 || n == 0 || k == 0 || node.view().Bool("transpose_a")) return false;
    for (const Use& use : node.uses()) {
      if (!IsViewNode(*use.node) && JoinedCall(*use.node) == &node) return false;
    }
    return HasAlignedRows(a) && HasAlignedRows(b);
  }

  bool IsFaster(const Node& node) const {
    const int64_t m = node.type().shape[0], n = node.type().shape[1],
                  k = node.operand(0).shape()[1];
    if (k % kStride != 0 || n % kColumns != 0) return false;
    return wish_ == OwnMatmul::kWherePossible ||
           (k >= kLeastDepth && k <= kMostDepth && m * n >= kLeastElements);
  }

  // The region that takes the product; -1 when none does.
  int FindRegion(const Node& product) {
    const Value p = const_cast<Node&>(product).result();
    for (const Use& use : UsesThroughViews(p)) {
      const int region = RegionOf(*use.node);
      if (region < 0 || use.node->StrFact(fact::kPhase) != product.StrFact(fact::kPhase)) continue;
      const std::optional<Dims> alone = tile_;
      if (Fits(regions_.at(region), p) && !HasDetour(product, region)) return region;
      tile_ = alone;
    }
    return -1;
  }

  // Chooses the tile of a small product.
  bool Fits(const std::vector<Node*>& nodes, Value product) {
    int64_t folds = 0;
    for (const Node* n : nodes) {
      if (n->Is("fold")) {
        if (++folds > 1 || !FoldFits(*n, product)) return false;
      } else if ((n->op_class() != OpClass::kElementwise && n->op_class() != OpClass::kRandom) ||
                 n->HasFact(fact::kJoins)) {
        return false;
      }
    }
    const RegionSpace space = SpaceOfRegion(nodes);
    if (space.elements() != product.type().NumElements() || space.has_rows()) return false;
    if (space.kind == SpaceKind::kColumn && folds == 0) return false;
    if (!ReadsFit(space, nodes, product)) return false;
    if (tile_ && folds > 0) tile_ = SmallTileOf(*product.node, space.chunk);
    return true;
  }

  bool FoldFits(const Node& fold, Value product) const {
    const FoldShape f = FoldShapeOf(fold);
    if (f.outer != 1 || f.n != product.shape()[0] || f.inner != product.shape()[1]) return false;
    if (fold.type().dtype != DType::kF32 || fold.view().Str("kind") != "sum") return false;
    if (tile_) return SmallTileOf(*product.node, f.chunk).has_value();
    const bool half =
        f.chunk == kTileRows / 2 && wish_ == OwnMatmul::kWherePossible;  // for tests: not timed
    return (f.chunk == kTileRows || half) && f.n % kTileRows == 0 && f.inner % kFoldColumns == 0;
  }

  // Whether the product is read at the element being computed only, and not too much besides.
  bool ReadsFit(const RegionSpace& space, const std::vector<Node*>& nodes, Value product) const {
    IndexSpace vars;
    const IndexExpr full = IndexOfRegion(vars, space).full;
    const std::set<const Node*> inside(nodes.begin(), nodes.end());
    std::set<Value> whole;  // of the product's size, or larger
    bool fits = true;
    const std::function<void(Value, const IndexExpr&)> read = [&](Value v, const IndexExpr& at) {
      const auto [base, pulled] = PullThroughViews(vars, v, at);
      fits = fits && !(tile_ && IsHuge(base.type()));  // small products index by ints
      if (base == product) {
        fits = fits && pulled == full;
      } else if (IsInline(*base.node) && inside.contains(base.node)) {
        for (const Value& o : base.node->operands()) {
          if (o) read(o, pulled);
        }
      } else if (!inside.contains(base.node) &&
                 base.type().NumElements() >= product.type().NumElements()) {
        whole.insert(base);
      }
    };
    for (const Node* n : nodes) {
      if (IsInline(*n)) continue;
      for (const Value& v : n->operands()) {
        if (v) read(v, full);
      }
    }
    int64_t bytes = 0;
    for (const Value& v : whole) bytes += ByteWidth(v.dtype());
    return fits && bytes <= kReadBytes;
  }

  // Whether a path leads from the product to region `to` through another one: which has a node
  // behind the product, and that keeps the search near.
  bool HasDetour(const Node& product, int to) const {
    const int from = RegionOf(product), place = place_[product.id()];
    std::set<int> seen = {from, to};
    std::vector<int> pending = {to};
    while (!pending.empty()) {
      const int region = pending.back();
      pending.pop_back();
      for (const Node* n : regions_.at(region)) {
        for (const Value& v : n->operands()) {
          if (!v) continue;
          const Node* base = ResolveView(v).base.node;
          while (IsViewNode(*base)) base = base->operand(0).node;
          const int next = RegionOf(*base);
          if (next == from && region != to) return true;
          if (next >= 0 && last_.at(next) > place && seen.insert(next).second)
            pending.push_back(next);
        }
      }
    }
    return false;
  }

  Graph& graph_;
  OwnMatmul wish_;
  bool fuse_, small_;
  std::optional<Dims> tile_;  // of the product in hand, where it is small
  std::map<int, std::vector<Node*>> regions_;
  std::map<int, int> last_;  // of a region: the place of its last node
  std::vector<int> place_;   // by node id
};

}  // namespace

void FuseProducts(Graph& graph, const PassOptions& options) {
  if (options.own_matmul == OwnMatmul::kNever || options.numerics == Numerics::kStrict) return;
  if (options.target == nullptr || options.target->sm() != 90) return;
  Fuser(graph, options).Run();
}

}  // namespace stator
