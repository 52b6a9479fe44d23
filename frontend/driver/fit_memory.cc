#include "frontend/driver/fit_memory.h"

#include "frontend/driver/report.h"
#include "ir/base/error.h"
#include "ir/facts.h"
#include "ir/space.h"
#include "passes/analysis/liveness.h"
#include "passes/pipeline.h"

#include <algorithm>
#include <set>

namespace stator {
namespace {

constexpr size_t kNamedTensors = 6;
constexpr int64_t kLeastStep = int64_t{1} << 20;
constexpr int64_t kEverything = int64_t{1} << 60;

// Of the values that the backward pass computes anew, those on the way to others included.
int64_t RecomputedBytes(const Graph& graph) {
  int64_t bytes = 0;
  for (const Node* n : graph.Nodes()) {
    if (n->HasFact(fact::kRecompute)) bytes += n->type().Bytes();
  }
  return bytes;
}

// The scratch of attention's gradient is for sums in a fixed order.
bool IsScratchOfAttention(const Graph& graph, const PeakValue& value) {
  if (value.name != "scratch") return false;
  const std::vector<Node*> nodes = graph.Nodes();
  return std::any_of(nodes.begin(), nodes.end(), [&](const Node* n) {
    return n->Is("attention_grad") && n->scope() == value.scope;
  });
}

[[noreturn]] void Refuse(const Graph& graph, const PassOptions& options, int64_t budget,
                         int64_t missing) {
  const int64_t reserved = options.target->ReservedBytes();  // for what is not in the plan
  std::string alive;
  const std::vector<PeakValue> peak = AliveAtPeak(graph);
  for (size_t i = 0; i < std::min(kNamedTensors, peak.size()); ++i) {
    alive += StrCat(i == 0 ? "" : ", ", peak[i].name, " (", peak[i].scope, ", ",
                    FormatBytes(static_cast<double>(peak[i].bytes)), ")");
  }
  if (peak.size() > kNamedTensors) alive += StrCat(" and ", peak.size() - kNamedTensors, " more");
  const int64_t least = budget + missing;
  Fail(ErrorCode::kOutOfMemory, "memory: program ", graph.name(), " does not fit ",
       FormatBytes(static_cast<double>(budget)),
       "; with everything recomputed that can be it takes ", least, " bytes (",
       FormatBytes(static_cast<double>(least)),
       reserved == 0 ? ""
                     : StrCat(", ", FormatBytes(static_cast<double>(reserved)),
                              " of them for context and libraries"),
       "); alive at its peak: ", alive,
       !options.fast && options.target->kind() == DeviceKind::kCuda && !peak.empty() &&
               IsScratchOfAttention(graph, peak[0])
           ? "; --fast does without most of the scratch"
           : "");
}

}  // namespace

int64_t BytesBesidesArena(const std::vector<std::unique_ptr<Graph>>& graphs, const Target& target) {
  int64_t bytes = target.ReservedBytes();
  std::set<std::string> states;
  for (const auto& graph : graphs) {
    for (const Param& p : graph->states()) {
      if (states.insert(p.name).second) bytes += AlignBuffer(p.node->type().Bytes());
    }
    for (const Param& p : graph->inputs()) bytes += AlignBuffer(p.node->type().Bytes());
    for (const Output& o : graph->outputs()) bytes += AlignBuffer(o.value.type().Bytes());
  }
  return bytes;
}

std::vector<PassTiming> LowerToFit(
    std::unique_ptr<Graph>& graph, const PassOptions& options, int64_t budget, int64_t arena,
    const std::function<void(const std::string& pass, const Graph&)>& on_dump) {
  const PassManager lower(LowerPasses());
  if (budget <= 0) return lower.Run(*graph, options, on_dump);
  PassOptions asked = options;
  std::vector<PassTiming> timings;
  std::unique_ptr<Graph> lowered;
  // Bytes that the arena is too large by with `bytes` recomputed.
  const auto missing_with = [&](int64_t bytes) {
    asked.recompute_bytes = bytes;
    lowered = graph->Clone();
    timings = lower.Run(*lowered, asked, on_dump);
    return ArenaBytes(*lowered) - arena;
  };
  int64_t missing = missing_with(0);
  if (missing > 0) {
    // Whether it can fit at all; then as little as makes it fit. What is asked for grows by an
    // eighth at least, so that a few rounds do.
    const int64_t missing_at_best = missing_with(kEverything);
    if (missing_at_best > 0) Refuse(*lowered, options, budget, missing_at_best);
    const int64_t most = RecomputedBytes(*lowered);
    int64_t bytes = 0;
    while (missing > 0) {
      bytes += std::max({missing, bytes / 8, kLeastStep});
      missing = missing_with(bytes < most ? bytes : kEverything);
    }
  }
  graph = std::move(lowered);
  return timings;
}

}  // namespace stator
