// What plan-memory must never do, checked by running planned programs over a model of memory: every
// read must find the value that was written there, on random graphs through the real pipeline.
#include "ir/base/str.h"
#include "ir/builder.h"
#include "ir/facts.h"
#include "ir/region.h"
#include "ir/storage.h"
#include "ir/text.h"
#include "ir/views.h"
#include "passes/analysis/liveness.h"
#include "passes/analysis/offset_planner.h"
#include "passes/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace stator::testing {
namespace {

// A place in memory: arena bytes, or a state's storage.
struct Place {
  Space space;
  int64_t begin, end;
  bool Meets(const Place& o) const { return space == o.space && begin < o.end && o.begin < end; }
};

class Memory {
 public:
  explicit Memory(const Graph& graph) : graph_(graph) {
    for (const Param& p : graph.states()) Write(p.node->result());
  }

  // Where the storage of a value that is no view lies; nothing for inputs and constants.
  std::optional<Place> PlaceOf(Value v) const {
    for (size_t s = 0; s < graph_.states().size(); ++s) {
      if (graph_.states()[s].node == v.node) return StatePlace(s);
    }
    const Storage storage = StorageOf(v);
    if (storage.space == Space::kState) return StatePlace(static_cast<size_t>(storage.offset));
    if (storage.space != Space::kArena) return std::nullopt;
    return Place{Space::kArena, storage.offset, storage.offset + v.type().Bytes()};
  }

  void Write(Value v) {
    const Place place = *PlaceOf(v);
    std::erase_if(held_, [&](const auto& h) { return h.first.Meets(place); });
    held_.emplace_back(place, v);
  }
  bool Holds(Value v) const {
    for (const auto& [place, value] : held_) {
      if (value == v) return true;
    }
    return v.type().NumElements() == 0;
  }

 private:
  static Place StatePlace(size_t s) {
    const auto at = static_cast<int64_t>(s);
    return {Space::kState, at, at + 1};
  }

  const Graph& graph_;
  std::vector<std::pair<Place, Value>> held_;
};

// Reading `old` and writing `v` over it in one region: only element by element, or by rows whose
// elements are stored last.
void ExpectElementwise(const RegionStep& step, Value old, Value v) {
  EXPECT_EQ(ByteWidth(old.dtype()), ByteWidth(v.dtype()));
  EXPECT_EQ(old.type().NumElements(), v.type().NumElements());
  const bool folds = std::any_of(step.nodes.begin(), step.nodes.end(),
                                 [](const Node* n) { return n->Is("fold"); });
  if (folds) {
    const RegionSpace space = SpaceOfRegion(step.nodes);
    EXPECT_TRUE(space.has_rows() && space.elements() == v.type().NumElements()) << space.ToString();
  }
  for (const Node* node : step.nodes) {
    EXPECT_TRUE(node->op_class() == OpClass::kElementwise ||
                node->op_class() == OpClass::kMovement || node->op_class() == OpClass::kRandom ||
                node->op_class() == OpClass::kSource || node->Is("fold") ||
                node->StrFact(fact::kEpilogue) == "accumulate")
        << PrintNode(*node);
    for (const Value operand : node->operands()) {
      if (!operand || ResolveView(operand).base != old) continue;
      EXPECT_TRUE(node->op_class() == OpClass::kElementwise || node->Is("fold"))
          << PrintNode(*node);
      EXPECT_TRUE(IsDense(ResolveView(operand), operand.shape())) << PrintNode(*node);
    }
  }
}

bool HasStorage(Value v) { return IsMaterialized(v) || v.node->Is("state"); }

void ExpectSound(const Graph& graph) {
  const Liveness liveness = AnalyzeLiveness(graph);
  Memory memory(graph);
  for (const RegionStep& step : liveness.steps) {
    std::vector<Value> reads, writes;
    for (Node* node : step.nodes) {
      for (const Value operand : node->operands()) {
        if (!operand) continue;
        const Value base = ResolveView(operand).base;
        if (RegionOf(*base.node) != step.region && HasStorage(base)) reads.push_back(base);
      }
      for (int i = 0; i < node->num_results(); ++i) {
        if (IsMaterialized(node->result(i))) writes.push_back(node->result(i));
      }
    }
    for (const Value v : reads) EXPECT_TRUE(memory.Holds(v)) << "lost: " << PrintNode(*v.node);
    for (size_t i = 0; i < writes.size(); ++i) {
      const auto place = memory.PlaceOf(writes[i]);
      ASSERT_TRUE(place) << "no storage: " << PrintNode(*writes[i].node);
      if (place->space == Space::kArena) {
        EXPECT_EQ(place->begin % kBufferAlignment, 0);
      }
      for (size_t j = 0; j < i; ++j) EXPECT_FALSE(memory.PlaceOf(writes[j])->Meets(*place));
      for (const Value read : reads) {
        if (memory.PlaceOf(read)->Meets(*place)) ExpectElementwise(step, read, writes[i]);
      }
    }
    for (const Value v : writes) memory.Write(v);
  }
  const auto expect_there = [&](Value v, const std::string& what) {
    const Value base = ResolveView(v).base;
    EXPECT_TRUE(!HasStorage(base) || memory.Holds(base))
        << what << " lost: " << PrintNode(*base.node);
  };
  for (const Output& o : graph.outputs()) expect_there(o.value, "output " + o.name);
  for (const NextState& n : graph.next_states()) {
    expect_there(n.value, "next " + graph.ParamName(n.state));
  }
}

class RandomGraph {
 public:
  explicit RandomGraph(uint64_t seed)
      : random_(seed), graph_(std::make_unique<Graph>("random")), b_(*graph_) {}

  std::unique_ptr<Graph> Make(int nodes) {
    for (const Dims& shape : {Dims{8, 16}, Dims{16, 8}, Dims{128}}) {
      pool_.push_back(graph_->AddInput(StrCat("x", pool_.size()), {DType::kF32, shape}));
    }
    Values states;
    for (const Dims& shape : {Dims{8, 16}, Dims{8, 16}, Dims{16, 8}, Dims{128}}) {
      states.push_back(graph_->AddState(StrCat("s", states.size()), {DType::kF32, shape}));
      pool_.push_back(states.back());
    }
    for (int k = 0; k < nodes; ++k) AddNode();
    for (const Value s : states) {
      if (const Value next = Pick(s.shape()); next && Below(4) > 0) graph_->SetNextState(s, next);
    }
    for (int k = 0; k < 3; ++k)
      graph_->AddOutput(StrCat("y", k), pool_[pool_.size() - 1 - Below(8)]);
    return std::move(graph_);
  }

 private:
  size_t Below(size_t n) { return random_() % n; }
  Value Any() {
    return pool_[Below(2) == 0 ? Below(pool_.size())
                               : pool_.size() - 1 - Below(std::min<size_t>(6, pool_.size()))];
  }
  // A late value of the shape; null when there is none.
  Value Pick(const Dims& shape) {
    Values fits;
    for (const Value v : pool_) {
      if (v.shape() == shape) fits.push_back(v);
    }
    return fits.empty() ? Value{} : fits[fits.size() - 1 - Below(std::min<size_t>(fits.size(), 4))];
  }

  void AddNode() {
    const Value x = Any();
    const Dims& shape = x.shape();
    switch (Below(9)) {
      case 0:
        pool_.push_back(b_.Exp(x));
        break;
      case 1:
        pool_.push_back(b_.Tanh(x));
        break;
      case 2:
      case 3:
        pool_.push_back(b_.Add(x, Pick(shape)));
        break;
      case 4:
        pool_.push_back(b_.Mul(x, Pick(shape)));
        break;
      case 5:
        if (shape.size() == 2) pool_.push_back(b_.Transpose(x, {1, 0}));
        break;
      case 6:
        pool_.push_back(b_.Reshape(x, shape.size() == 2 ? Dims{128}
                                      : Below(2)        ? Dims{8, 16}
                                                        : Dims{16, 8}));
        break;
      case 7:
        pool_.push_back(b_.Mul(x, b_.Broadcast(b_.Sum(x, -1), shape)));
        break;
      case 8:
        if (shape.size() == 2) {
          pool_.push_back(b_.MatMul(b_.MatMul(x, x, false, true), x));
        } else {
          pool_.push_back(b_.Cast(b_.Cast(x, DType::kBF16), DType::kF32));
        }
        break;
    }
  }

  std::mt19937_64 random_;
  std::unique_ptr<Graph> graph_;
  Builder b_;
  Values pool_;
};

TEST(PlanMemory, every_read_finds_its_value) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    const auto graph = RandomGraph(seed).Make(20 + static_cast<int>(seed) % 60);
    graph->EraseDead();
    PassOptions options;
    options.fuse = seed % 3 != 0;
    PassManager(LowerPasses()).Run(*graph, options);
    ExpectSound(*graph);
    const ArenaUse use = MeasureArena(*graph);
    EXPECT_GE(use.arena_bytes, use.max_live_bytes);
    EXPECT_EQ(use.arena_bytes, ArenaBytes(*graph));
    int64_t peak = 0;
    for (const PeakValue& v : AliveAtPeak(*graph)) peak += v.bytes;
    EXPECT_EQ(peak, use.max_live_bytes);
    if (HasFailure()) FAIL() << PrintGraph(*graph);
  }
}

TEST(PlanOffsets, no_two_live_intervals_overlap_and_little_is_wasted) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<Interval> intervals;
    for (int k = 0; k < 200; ++k) {
      const int first = static_cast<int>(random() % 100);
      const int last = first + static_cast<int>(random() % (random() % 4 == 0 ? 80 : 6));
      intervals.push_back({first, last, static_cast<int64_t>(random() % 20) * 1000});
    }
    const int64_t size = PlanOffsets(intervals);
    for (size_t i = 0; i < intervals.size(); ++i) {
      const Interval& a = intervals[i];
      EXPECT_LE(a.offset + AlignBuffer(a.bytes), size);
      for (size_t j = 0; j < i; ++j) {
        const Interval& b = intervals[j];
        const bool together = a.first <= b.last && b.first <= a.last;
        const bool overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
        EXPECT_FALSE(together && overlap);
      }
    }
    const std::vector<int64_t> live = LiveBytes(intervals);
    EXPECT_LE(size, *std::max_element(live.begin(), live.end()) * 112 / 100);
  }
}

TEST(PlanOffsets, nothing_takes_nothing) {
  std::vector<Interval> none, empty = {{0, 3, 0}};
  EXPECT_EQ(PlanOffsets(none), 0);
  EXPECT_EQ(PlanOffsets(empty), 0);
}

}  // namespace
}  // namespace stator::testing
