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
      buffers.push_back({{step, liveness.steps[s].done, scratch, ScratchOffset(*node)}, {}});
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

int Liveness::StepOf(const Node& node) const { return step_of_node[node.id()]; }

namespace {

// What runs on another stream is done where stream 0 waits for it or for a later step there.
void FindEnds(Liveness& out, const std::unordered_map<int, int>& step_of_region) {
  std::map<int, int>
      waits;  // step of another stream -> the first of stream 0 that waits for it or a later one
  int last = -1;
  for (size_t s = 0; s < out.steps.size(); ++s) {
    const RegionStep& step = out.steps[s];
    const int64_t region = step.nodes[0]->IntFact(fact::kWaits, -1);
    if (region < 0) continue;
    const auto found = step_of_region.find(static_cast<int>(region));
    STATOR_CHECK(
        found != step_of_region.end() && found->second < static_cast<int>(s) && step.stream == 0,
        "region ", step.region, " waits for region ", region,
        ", which does not stand before it on another stream");
    if (found->second > last) waits.emplace(last = found->second, static_cast<int>(s));
  }
  for (size_t s = 0; s < out.steps.size(); ++s) {
    const int step = static_cast<int>(s);
    const auto wait = waits.lower_bound(step);
    out.steps[s].done = out.steps[s].stream == 0 ? step
                        : wait == waits.end()    ? static_cast<int>(out.steps.size()) - 1
                                                 : wait->second;
  }
}

// When all that write or read `v` are done. A reader on another stream than the writer's must wait.
int LastTouch(const Liveness& liveness, Value v, int writer) {
  int last = liveness.steps[writer].done;
  for (const Use& use : UsesThroughViews(v)) {
    const int reader = liveness.StepOf(*use.node);
    if (reader < 0) continue;
    last = std::max(last, liveness.steps[reader].done);
    STATOR_CHECK(liveness.steps[reader].stream == liveness.steps[writer].stream ||
                     liveness.steps[writer].done <= reader,
                 PrintNode(*use.node), " reads a value of another stream and does not wait for it");
  }
  return last;
}

}  // namespace

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
      out.steps.push_back({region, {}, static_cast<int>(node->IntFact(fact::kStream, 0))});
    } else if (it->second + 1 != static_cast<int>(out.steps.size())) {
      Fail(ErrorCode::kInvalidArgument, "region ", region,
           " is not contiguous: ", PrintNode(*node));
    }
    out.step_of_node[node->id()] = it->second;
    out.steps.back().nodes.push_back(node);
  }
  const int end = static_cast<int>(out.steps.size()) - 1;
  const std::vector<int> run_end = RunEnds(out.steps);
  FindEnds(out, step_of_region);
  for (const RegionStep& step : out.steps) {
    for (Node* node : step.nodes) {
      for (int i = 0; i < node->num_results(); ++i) {
        const Value v = node->result(i);
        if (!IsMaterialized(v)) continue;
        LiveRange range{v, out.StepOf(*node), 0, IsUsedOutsideThroughViews(v)};
        range.last = range.to_end ? end : run_end[LastTouch(out, v, range.first)];
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
