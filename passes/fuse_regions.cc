// fuse-regions: decides which nodes share a kernel. Elementwise work joins the reductions whose
// rows or columns it feeds or follows, several outputs leave one kernel, and cheap small values are
// recomputed where they are read. Fusing never changes a result: every value is still rounded to
// its dtype, and folds keep their tree.
//
// Forward and backward stay apart: a backward node that needs only forward values would otherwise
// join their kernel, and its result would live from there to its use.
//
// A region is legal when (1) one iteration space holds all its nodes (ir/region.h), (2) every
// access to a value computed inside it is at the very element being computed, and (3) no path
// leaves it and comes back. Nodes are visited in order, each starting as its own region and merging
// with the regions of its operands, then with regions that read the same large operands.
#include "ir/base/error.h"
#include "ir/facts.h"
#include "ir/region.h"
#include "ir/views.h"
#include "passes/passes.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <vector>

namespace stator {
namespace {

constexpr int64_t kInlineElements = 65536;  // recompute at most this much, at each use
constexpr int64_t kSiblingElements = 4096;  // reading less than this twice is not worth a merge
constexpr int64_t kSiblingShare = 2;  // nor is reading less than one of so many parts of the space
constexpr int64_t kRowColumnLength = 2048;  // longest row whose column folds stay in registers
constexpr int64_t kAssembledRun =
    16;  // elements of a part in a row: fewer would be stored one by one
constexpr size_t kMaxNodes = 160;
constexpr int kMaxColumnFolds = 4;

bool IsLiteral(const Node& n) {
  return n.op_class() == OpClass::kSource && !n.Is("input") && !n.Is("state");
}

bool IsFusible(const Node& n) {
  if (n.HasFact(fact::kJoins)) return false;  // a library call computes it
  switch (n.op_class()) {
    case OpClass::kElementwise:
    case OpClass::kReduce:
    case OpClass::kGather:
    case OpClass::kRandom:
      return true;
    case OpClass::kMovement:
      return !IsViewNode(n);
    default:
      return false;
  }
}

// Whether the node's value is its operand in a wider type: what reads the operand instead reads
// less.
bool Widens(const Node& n) {
  if (!n.Is("cast")) return false;
  const DType from = n.operand(0).dtype(), to = n.type().dtype;
  return IsFloat(from) && IsFloat(to) && ByteWidth(from) < ByteWidth(to);
}

struct Region {
  std::vector<Node*> nodes;
  RegionSpace space;
  bool fusible = true;
  bool alive = true;
  Symbol phase;
  std::vector<int> reads;  // ids of the storage-owning nodes that it reads, ascending
  int forward = -1;        // of a dead one: where it went
  int reach = 0;           // the last place, in the graph's order, of it and all that it waits for
};

class Fuser {
 public:
  Fuser(Graph& graph, const PassOptions& options) : graph_(graph), options_(options) {}

  void Run() {
    const size_t ids = static_cast<size_t>(graph_.max_id());
    region_of_.assign(ids, -1);
    inline_.assign(ids, false);
    node_by_id_.assign(ids, nullptr);
    readers_.resize(ids);
    inside_.assign(ids, 0);
    MarkAssembled();
    MarkInline();
    for (Node* node : graph_.Nodes()) {
      if (IsViewNode(*node) || IsInlined(*node) || IsLiteral(*node)) continue;
      if (JoinedCall(*node) != nullptr) {
        Join(node, Root(region_of_[JoinedCall(*node)->id()]));
      } else {
        Visit(node);
      }
    }
    CopyInlineNodes();
    // Ids in order of first node, so that the text is stable.
    std::vector<int> names(regions_.size(), -1);
    int named = 0;
    for (Node* node : graph_.Nodes()) {
      const int r = node->id() < static_cast<int>(region_of_.size()) ? region_of_[node->id()] : -1;
      if (r < 0) continue;
      if (names[r] < 0) names[r] = named++;
      node->SetFact(fact::kRegion, int64_t{names[r]});
    }
  }

 private:
  // A concat of equal parts that are computed here, for readers that take it from memory.
  void MarkAssembled() {
    for (Node* node : graph_.Nodes()) {
      if (!options_.fuse || !node->Is("concat") || !IsFusible(*node) ||
          node->type().NumElements() == 0)
        continue;
      const int axis = node->view().Axis("axis");
      const int64_t run = DenseStrides(node->type().shape)[axis] * node->operand(0).shape()[axis];
      bool equal = run >= kAssembledRun, computed = false, from_memory = true;
      for (const Value& part : node->operands()) {
        equal = equal && part.shape() == node->operand(0).shape();
        computed = computed || part.node->op_class() == OpClass::kElementwise;
      }
      for (const Use& use : UsesThroughViews(node->result())) {
        from_memory =
            from_memory && (!IsFusible(*use.node) || use.node->op_class() == OpClass::kMovement);
      }
      if (equal && computed && from_memory) node->SetFact(fact::kAssembled, true);
    }
  }

  // A node recomputed inside every kernel that reads it: literals, small cheap values, and values
  // read once at another element than their own.
  void MarkInline() {
    for (Node* node : graph_.Nodes()) {
      if (!options_.fuse || !IsFusible(*node) || node->num_results() != 1) continue;
      if (node->op_class() != OpClass::kElementwise) continue;
      const Value v = node->result();
      if (IsUsedOutsideThroughViews(v)) continue;
      const std::vector<Use> uses = UsesThroughViews(v);
      bool small = v.type().NumElements() <= kInlineElements && !CallsFunction(*node) &&
                   InlineDepth(*node) < 4;
      const bool widens = Widens(*node);
      bool fusible = !uses.empty();
      for (const Use& u : uses) {
        fusible =
            fusible && IsFusible(*u.node) && (widens || u.node->op_class() != OpClass::kReduce);
        small = small && WorkOf(*u.node) >= 16 * v.type().NumElements();
      }
      if (!fusible) continue;
      const bool single = uses.size() == 1 && !IsAssembled(*uses[0].node) &&
                          IsShifted(v, uses[0]) &&
                          WorkOf(*uses[0].node) <= 2 * v.type().NumElements();
      if (small || single || widens) {
        inline_[node->id()] = true;
        any_inline_ = true;
      }
    }
  }

  // Gives every region its own copy of the inline nodes it reads, so that each node belongs to one.
  void CopyInlineNodes() {
    if (!any_inline_) return;
    Copies copies;
    for (Node* node : graph_.Nodes()) {
      const int region =
          node->id() < static_cast<int>(region_of_.size()) ? region_of_[node->id()] : -1;
      if (region < 0) continue;
      for (int i = 0; i < node->num_operands(); ++i) {
        if (node->operand(i))
          graph_.SetOperand(node, i, Copied(node->operand(i), region, node, copies));
      }
    }
    graph_.EraseDead();
  }

  using Copies = std::unordered_map<int64_t, Node*>;  // by node and region, see KeyOf
  static int64_t KeyOf(const Node& node, int region) { return (int64_t{node.id()} << 32) | region; }

  // `v` with the inline nodes that it is computed from copied into `region`; `v` itself when there
  // are none.
  Value Copied(Value v, int region, Node* before, Copies& copies) {
    const bool is_inline = MarkedInline(*v.node);
    if (!is_inline && !IsViewNode(*v.node)) return v;
    const auto known = copies.find(KeyOf(*v.node, region));
    if (known != copies.end()) return known->second->result(v.index);
    std::vector<Value> operands;
    bool changed = is_inline;
    for (const Value& o : v.node->operands()) {
      operands.push_back(o ? Copied(o, region, before, copies) : o);
      changed = changed || operands.back() != o;
    }
    if (!changed) return v;
    Node* copy = graph_.AddCopy(*v.node, operands, before);
    if (is_inline) {
      copy->SetFact(fact::kInline, true);
      region_of_.resize(std::max<size_t>(region_of_.size(), copy->id() + 1), -1);
      region_of_[copy->id()] = region;
    }
    copies[KeyOf(*v.node, region)] = copy;
    return copy->result(v.index);
  }

  // Marked by this pass, or by an earlier one.
  bool IsInlined(const Node& n) const { return MarkedInline(n) || n.HasFact(fact::kInline); }
  // Copies are made of marked nodes, and are none themselves.
  bool MarkedInline(const Node& n) const {
    return n.id() < static_cast<int>(inline_.size()) && inline_[n.id()];
  }

  static int64_t WorkOf(const Node& n) {
    return std::max(n.type().NumElements(),
                    n.Is("fold") ? n.operand(0).type().NumElements() : int64_t{0});
  }

  int InlineDepth(const Node& n) const {
    int depth = 0;
    for (const Value& v : n.operands()) {
      const Node* base = v ? ResolveView(v).base.node : nullptr;
      if (base && MarkedInline(*base)) depth = std::max(depth, 1 + InlineDepth(*base));
    }
    return depth;
  }

  // Whether `use` reads the one value at a different element than it computes.
  static bool IsShifted(Value v, const Use& use) {
    if (use.node->op_class() != OpClass::kElementwise) return true;
    IndexSpace vars;
    const IndexExpr at = vars.AddVar("i", use.node->type().NumElements(), 1);
    const auto [base, pulled] = PullThroughViews(vars, use.node->operand(use.operand), at);
    return base == v && !(pulled == at);
  }

  // What a library call computes along with its own result is in its region.
  void Join(Node* node, int region) {
    Region& r = regions_[region];
    r.nodes.push_back(node);
    Reach(region, place_++);
    region_of_[node->id()] = region;
    for (const Value& v : node->operands()) {
      Node* base = ResolveView(v).base.node;
      if (base->HasFact(fact::kInline)) region_of_[base->id()] = region;
    }
    std::vector<int> reads = ReadsOf(*node);
    std::erase_if(reads, [&](int read) { return region_of_[read] == region; });
    for (const int read : reads) readers_[read].push_back(region);
    AddReads(reads, r);
  }

  void Visit(Node* node) {
    const int id = static_cast<int>(regions_.size());
    regions_.emplace_back();
    Region& r = regions_.back();
    r.nodes = {node};
    r.fusible = IsFusible(*node) && node->type().NumElements() > 0;
    if (r.fusible) r.space = SpaceOfNode(*node);
    region_of_[node->id()] = id;
    r.phase = node->StrFact(fact::kPhase);
    const std::vector<int> parents = ReadsOf(*node);
    regions_[id].reads = parents;
    regions_[id].reach = place_++;
    for (const int p : parents) readers_[p].push_back(id);
    if (!options_.fuse || !regions_[id].fusible) return;

    std::vector<int> candidates;
    for (auto it = parents.rbegin(); it != parents.rend(); ++it) {
      if (region_of_[*it] >= 0) candidates.push_back(region_of_[*it]);
    }
    std::sort(candidates.rbegin(), candidates.rend());
    const size_t related = candidates.size();
    for (const int p : parents) {
      // A mask that every layer reads must not tie the layers together, nor a list of targets the
      // chunks of tokens that each read a part of it.
      const int64_t least =
          std::max(kSiblingElements, regions_[id].space.elements() / kSiblingShare);
      if (NodeElements(p) < least || ReadsAPart(*node, p)) continue;
      for (const int reader : readers_[p]) candidates.push_back(Root(reader));
    }
    int into = id;
    for (size_t k = 0; k < candidates.size(); ++k) {
      const int c = Root(candidates[k]);
      into = Root(into);
      if (c == into || !regions_[c].fusible) continue;
      if (k >= related && regions_[c].space.elements() != regions_[into].space.elements()) continue;
      TryMerge(c, into);
    }
  }

  int64_t NodeElements(int id) const {
    return node_by_id_[id] == nullptr ? 0 : node_by_id_[id]->type().NumElements();
  }

  // Ids of the storage-owning nodes that `node` reads, through views and inline nodes, ascending.
  std::vector<int> ReadsOf(const Node& node) {
    std::vector<int> reads;
    CollectReads(node, &reads);
    std::sort(reads.begin(), reads.end());
    reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
    return reads;
  }

  static void AddReads(const std::vector<int>& reads, Region& region) {
    std::vector<int> all;
    std::set_union(region.reads.begin(), region.reads.end(), reads.begin(), reads.end(),
                   std::back_inserter(all));
    region.reads = std::move(all);
  }

  void CollectReads(const Node& node, std::vector<int>* reads) {
    for (const Value& v : node.operands()) {
      if (!v) continue;
      Node* base = ResolveView(v).base.node;
      while (IsViewNode(*base)) base = base->operand(0).node;
      if (IsInlined(*base)) {
        CollectReads(*base, reads);
      } else if (!IsLiteral(*base)) {
        node_by_id_[base->id()] = base;
        reads->push_back(base->id());
      }
    }
  }

  // `region` and all that waits for it reach as far as `place`.
  void Reach(int region, int place) {
    std::vector<int> pending = {region};
    while (!pending.empty()) {
      const int x = pending.back();
      pending.pop_back();
      if (regions_[x].reach >= place) continue;
      regions_[x].reach = place;
      for (const Node* n : regions_[x].nodes) {
        for (const int reader : readers_[n->id()]) pending.push_back(Root(reader));
      }
    }
  }

  // Whether what `node` reads of `id`, itself or by inline nodes, is cut out of it.
  bool ReadsAPart(const Node& node, int id) const {
    for (const Value& v : node.operands()) {
      if (!v) continue;
      bool cut = false;
      const Node* base = v.node;
      for (; IsViewNode(*base); base = base->operand(0).node) {
        cut = cut || base->type().NumElements() < base->operand(0).type().NumElements();
      }
      if (base->id() == id ? cut : IsInlined(*base) && ReadsAPart(*base, id)) return true;
    }
    return false;
  }

  int Root(int r) const {
    while (!regions_[r].alive) r = regions_[r].forward;
    return r;
  }

  // Whether a path leads from `from` to `to` through another region. Only regions that reach as far
  // as `from` can lie on one, which keeps the search near.
  bool HasIndirectPath(int from, int to) const {
    seen_.resize(regions_.size(), 0);
    const int search = ++searches_;
    seen_[from] = seen_[to] = search;
    std::vector<int> pending = {to};
    while (!pending.empty()) {
      const int x = pending.back();
      pending.pop_back();
      for (const int node : regions_[x].reads) {
        const int parent = region_of_[node];
        if (parent == from && x != to) return true;
        if (parent < 0 || regions_[parent].reach < regions_[from].reach) continue;
        if (seen_[parent] == search) continue;
        seen_[parent] = search;
        pending.push_back(parent);
      }
    }
    return false;
  }

  bool MergeMakesCycle(int a, int b) const {
    return HasIndirectPath(a, b) || HasIndirectPath(b, a);
  }

  // The sum of all parameters' squares, joined to one parameter's, would hold back that kernel and
  // make it unlike the others: apart, equal ones share a launch (codegen/merge_calls.h).
  bool TiesNorms(int a, int b) const {
    const auto scalar = [&](int r) {
      return regions_[r].space.kind == SpaceKind::kPointwise && regions_[r].space.elements() == 1;
    };
    const auto folds = [&](int r) { return regions_[r].space.kind != SpaceKind::kPointwise; };
    return regions_[a].phase.str() == "update" &&
           ((scalar(a) && folds(b)) || (folds(a) && scalar(b)));
  }

  bool TryMerge(int a, int b) {
    RegionSpace space = regions_[a].space;
    if (regions_[a].phase != regions_[b].phase || TiesNorms(a, b)) return false;
    if (!CombineSpaces(&space, regions_[b].space)) return false;
    if (regions_[a].nodes.size() + regions_[b].nodes.size() > kMaxNodes) return false;
    std::vector<Node*> nodes = regions_[a].nodes;
    nodes.insert(nodes.end(), regions_[b].nodes.begin(), regions_[b].nodes.end());
    if (!SpaceAllowed(space, nodes) || MergeMakesCycle(a, b) || !AccessesCoincide(space, nodes)) {
      return false;
    }
    // `b` becomes part of `a`.
    for (const Node* n : regions_[b].nodes) region_of_[n->id()] = a;
    regions_[a].nodes = std::move(nodes);
    regions_[a].space = space;
    regions_[b].alive = false;
    regions_[b].forward = a;
    AddReads(regions_[b].reads, regions_[a]);
    const int reach = std::max(regions_[a].reach, regions_[b].reach);
    regions_[a].reach = std::min(regions_[a].reach, regions_[b].reach);
    Reach(a, reach);
    return true;
  }

  bool SpaceAllowed(const RegionSpace& space, const std::vector<Node*>& nodes) const {
    if (space.kind != SpaceKind::kRowColumn) return true;
    int columns = 0;
    for (const Node* n : nodes) {
      if (n->Is("fold") && !FoldShapeOf(*n).is_row()) ++columns;
    }
    return space.row_length() <= kRowColumnLength && columns <= kMaxColumnFolds;
  }

  // Every read of a value computed in the region is at the element or row being computed.
  bool AccessesCoincide(const RegionSpace& space, const std::vector<Node*>& nodes) const {
    IndexSpace vars;
    const RegionIndex at = IndexOfRegion(vars, space);
    const int trial = ++trials_;
    for (const Node* n : nodes) inside_[n->id()] = trial;
    for (const Node* n : nodes) {
      const Place place = PlaceOf(space, *n);
      if (place == Place::kNowhere || (IsAssembled(*n) && place != Place::kFull)) return false;
      const IndexExpr& own = n->Is("fold") || place == Place::kFull ? at.full : at.row;
      const bool aligned = n->op_class() == OpClass::kElementwise || n->Is("fold") ||
                           n->Is("reshape") || IsAssembled(*n);
      for (const Value& v : n->operands()) {
        if (v && !AccessCoincides(space, at, vars, *n, v, own, aligned)) return false;
      }
    }
    return true;
  }

  // What `reader` reads of `v` at `index`. Two values of one of the regions that are to merge were
  // looked at when that region formed, and again only where it gets another space.
  bool AccessCoincides(const RegionSpace& space, const RegionIndex& at, IndexSpace& vars,
                       const Node& reader, Value v, const IndexExpr& index, bool aligned) const {
    const int from = BaseOfMovements(v).node->id(), region = region_of_[reader.id()];
    const bool known = region_of_[from] == region && regions_[region].space == space;
    if (known || (inside_[from] != trials_ && !inline_[from])) return true;
    const auto [base, pulled] = PullThroughViews(vars, v, index);
    if (inside_[base.node->id()] == trials_) {
      if (!aligned || IsAssembled(*base.node)) return false;
      switch (PlaceOf(space, *base.node)) {
        case Place::kFull:
          return pulled == at.full;
        case Place::kRow:
          return pulled == at.row;
        default:
          return false;
      }
    }
    for (const Value& o : base.node->operands()) {
      if (o && !AccessCoincides(space, at, vars, reader, o, pulled, aligned)) return false;
    }
    return true;
  }

  Graph& graph_;
  const PassOptions& options_;
  std::vector<Region> regions_;
  int place_ = 0;
  // By node id:
  std::vector<int> region_of_;
  std::vector<char> inline_;               // whether the node is recomputed where it is read
  std::vector<Node*> node_by_id_;          // of nodes that are read
  std::vector<std::vector<int>> readers_;  // regions
  bool any_inline_ = false;
  // The last search that saw a region, and the last trial that had a node inside: marks that need
  // no clearing.
  mutable std::vector<int> seen_, inside_;
  mutable int searches_ = 0, trials_ = 0;
};

}  // namespace

void FuseRegions(Graph& graph, const PassOptions& options) { Fuser(graph, options).Run(); }

}  // namespace stator
