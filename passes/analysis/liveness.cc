#include "passes/analysis/liveness.h"

#include "ir/base/error.h"
#include "ir/facts.h"
#include "ir/storage.h"
#include "ir/text.h"
#include "ir/views.h"
#include "passes/analysis/offset_planner.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace stator {
namespace {

// Buffers in the arena with their lifetimes. Values that took over a dying operand's storage are
// one buffer with it: they begin where the other ends.
struct ArenaBuffer {
  Interval interval;
  std::vector<LiveRange> values;
};

std::vector<ArenaBuffer> ArenaBuffers(const Liveness& liveness) {
  std::vector<ArenaBuffer> buffers;
  std::map<int64_t, int> at;  // offset -> the latest buffer there
  for (const LiveRange& range : liveness.values) {
    const Storage storage = StorageOf(range.value);
    const int64_t bytes = range.value.type().Bytes();
    if (storage.space != Space::kArena || bytes == 0) continue;
    const auto before = at.find(storage.offset);
    if (before != at.end() && buffers[before->second].interval.last == range.first) {
      ArenaBuffer& buffer = buffers[before->second];
      buffer.interval.last = range.last;
      buffer.values.push_back(range);
      continue;
    }
    at[storage.offset] = static_cast<int>(buffers.size());
    buffers.push_back({{range.first, range.last, bytes, storage.offset}, {range}});
  }
  for (size_t s = 0; s < liveness.steps.size(); ++s) {
    for (const Node* node : liveness.steps[s].nodes) {
      const int64_t scratch = node->IntFact(fact::kScratch, 0);
      if (scratch == 0) continue;
      const int step = static_cast<int>(s);
      buffers.push_back({{step, step, scratch, ScratchOffset(*node)}, {}});
    }
  }
  return buffers;
}

// For each step the last one of its run: steps under one launch run as if at once, so that none may
// reuse what another still reads.
std::vector<int> RunEnds(const std::vector<RegionStep>& steps) {
  std::vector<int> ends(steps.size());
  const auto run = [&](size_t s) { return steps[s].nodes[0]->IntFact(fact::kTogether, -1); };
  for (size_t s = steps.size(); s-- > 0;) {
    const bool same = s + 1 < steps.size() && run(s) >= 0 && run(s) == run(s + 1);
    ends[s] = same ? ends[s + 1] : static_cast<int>(s);
  }
  return ends;
}

std::vector<Interval> Intervals(const std::vector<ArenaBuffer>& buffers) {
  std::vector<Interval> intervals;
  for (const ArenaBuffer& b : buffers) intervals.push_back(b.interval);
  return intervals;
}

}  // namespace

int Liveness::StepOf(const Node& node) const {
  return step_of_node[node.id()];
}

int LastRead(const Liveness& liveness, Value v) {
  int last = -1;
  AnyUseThroughViews(v, [&](const Use& use) {
    last = std::max(last, liveness.StepOf(*use.node));
    return false;
  });
  return last;
}

Liveness AnalyzeLiveness(const Graph& graph) {
  Liveness out;
  std::unordered_map<int, int> step_of_region;
  out.step_of_node.assign(graph.max_id(), -1);
  for (Node* node : graph.Nodes()) {
    const int region = RegionOf(*node);
    if (region < 0) {
      if (IsViewNode(*node) || node->op_class() == OpClass::kSource) continue;
      Fail(ErrorCode::kInvalidArgument, "node has no region: ", PrintNode(*node));
    }
    const auto [it, fresh] = step_of_region.emplace(region, static_cast<int>(out.steps.size()));
    if (fresh) {
      out.steps.push_back({region, {}});
    } else if (it->second + 1 != static_cast<int>(out.steps.size())) {
      Fail(ErrorCode::kInvalidArgument, "region ", region,
           " is not contiguous: ", PrintNode(*node));
    }
    out.step_of_node[node->id()] = it->second;
    out.steps.back().nodes.push_back(node);
  }
  const int end = static_cast<int>(out.steps.size()) - 1;
  const std::vector<int> run_end = RunEnds(out.steps);
  for (const RegionStep& step : out.steps) {
    for (Node* node : step.nodes) {
      for (int i = 0; i < node->num_results(); ++i) {
        const Value v = node->result(i);
        if (!IsMaterialized(v)) continue;
        LiveRange range{v, out.StepOf(*node), 0, IsUsedOutsideThroughViews(v)};
        range.last = range.to_end ? end : run_end[std::max(range.first, LastRead(out, v))];
        out.values.push_back(range);
      }
    }
  }
  return out;
}

int64_t ArenaBytes(const Graph& graph) {
  int64_t bytes = 0;
  for (Node* node : graph.Nodes()) {
    const int64_t scratch = node->IntFact(fact::kScratch, 0);
    if (scratch > 0) bytes = std::max(bytes, ScratchOffset(*node) + AlignBuffer(scratch));
    for (int i = 0; i < node->num_results(); ++i) {
      const Storage storage = StorageOf(node->result(i));
      if (storage.space != Space::kArena) continue;
      bytes = std::max(bytes, storage.offset + AlignBuffer(node->type(i).Bytes()));
    }
  }
  return bytes;
}

std::vector<PeakValue> AliveAtPeak(const Graph& graph) {
  const Liveness liveness = AnalyzeLiveness(graph);
  const std::vector<ArenaBuffer> buffers = ArenaBuffers(liveness);
  const std::vector<int64_t> live = LiveBytes(Intervals(buffers));
  if (live.empty()) return {};
  const int peak = static_cast<int>(std::max_element(live.begin(), live.end()) - live.begin());
  std::vector<PeakValue> alive;
  for (const ArenaBuffer& buffer : buffers) {
    if (peak < buffer.interval.first || peak > buffer.interval.last) continue;
    if (buffer.values.empty()) {
      const Node& node = *liveness.steps[peak].nodes.front();
      alive.push_back({"scratch", node.scope(), AlignBuffer(buffer.interval.bytes)});
      continue;
    }
    // Of several values in one buffer, the latest that is there at the peak.
    const LiveRange* there = &buffer.values.front();
    for (const LiveRange& range : buffer.values) {
      if (range.first <= peak) there = &range;
    }
    const Node& node = *there->value.node;
    alive.push_back({StrCat(node.op().name, " ", there->value.type().ToString()), node.scope(),
                     AlignBuffer(buffer.interval.bytes)});
  }
  std::stable_sort(alive.begin(), alive.end(),
                   [](const PeakValue& a, const PeakValue& b) { return a.bytes > b.bytes; });
  return alive;
}

ArenaUse MeasureArena(const Graph& graph) {
  const std::vector<int64_t> live = LiveBytes(Intervals(ArenaBuffers(AnalyzeLiveness(graph))));
  return {ArenaBytes(graph), live.empty() ? 0 : *std::max_element(live.begin(), live.end())};
}

}  // namespace stator
