// assign-streams: what only the update waits for runs beside the rest, on a second stream.
//
// A small training step is bound by how long its kernels take one after another, each on a small
// part of a GPU. The gradients of the weights are on nobody's way: only the update reads them. So
// their products and folds get stream 1, as fact `stream`, and with them what is read only much
// later: the head's gradient of tied embeddings. A step there starts when all steps before it on
// stream 0 have ended; stream 0 waits where it reads what stream 1 wrote. Until then what they read
// and write stays alive (passes/analysis/liveness.cc), so that no order of the two can matter:
// memory that a small program has to spare. A large one fills the GPU and stays as it is.
#include "ir/facts.h"
#include "ir/views.h"
#include "passes/analysis/liveness.h"
#include "passes/analysis/offset_planner.h"
#include "passes/passes.h"

#include <algorithm>

namespace stator {
namespace {

constexpr int64_t kSmallProgram = int64_t{128} << 20;  // bytes alive at once
constexpr int kMuchLater = 16;                         // steps: by then it has long ended

bool IsUpdate(const RegionStep& step) {
  return step.nodes[0]->StrFact(fact::kPhase) == "update" ||
         step.nodes[0]->HasFact(fact::kTogether);
}

// A product or a kernel whose results nobody reads soon, and before step `tail`, but steps that are
// `beside`, and that reads no state, which the update writes.
bool CanRunBeside(const Liveness& liveness, int step, int tail, const std::vector<bool>& beside) {
  bool read = false;
  for (Node* node : liveness.steps[step].nodes) {
    switch (node->op_class()) {
      case OpClass::kElementwise:
      case OpClass::kReduce:
      case OpClass::kMovement:
      case OpClass::kContraction:
        break;
      default:
        return false;
    }
    for (const Value& v : node->operands()) {
      if (v && ResolveView(v).base.node->Is("state")) return false;
    }
    for (int i = 0; i < node->num_results(); ++i) {
      const Value v = node->result(i);
      if (!IsMaterialized(v)) continue;
      if (IsUsedOutsideThroughViews(v)) return false;
      for (const Use& use : UsesThroughViews(v)) {
        const int reader = liveness.StepOf(*use.node);
        if (reader < 0 || reader == step) continue;
        if (reader < tail && reader < step + kMuchLater && !beside[reader]) return false;
        read = true;
      }
    }
  }
  return read;
}

// For each step that is not `beside`: the latest of those whose results it reads, or -1.
std::vector<int> LatestWritersBeside(const Liveness& liveness, const std::vector<bool>& beside) {
  std::vector<int> latest(liveness.steps.size(), -1);
  for (const LiveRange& range : liveness.values) {
    if (!beside[range.first]) continue;
    for (const Use& use : UsesThroughViews(range.value)) {
      const int reader = liveness.StepOf(*use.node);
      if (reader >= 0 && !beside[reader]) latest[reader] = std::max(latest[reader], range.first);
    }
  }
  return latest;
}

int64_t PeakBytes(const Liveness& liveness) {
  std::vector<Interval> intervals;
  for (const LiveRange& range : liveness.values) {
    intervals.push_back({range.first, range.last, range.value.type().Bytes()});
  }
  const std::vector<int64_t> live = LiveBytes(intervals);
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

}  // namespace

void AssignStreams(Graph& graph, const PassOptions& options) {
  for (Node* node : graph.Nodes()) {
    for (const auto key : {fact::kStream, fact::kWaits}) node->ClearFact(key);
  }
  if (options.target == nullptr || options.target->kind() != DeviceKind::kCuda) return;
  if (options.recompute_bytes > 0) return;  // short of memory
  const Liveness liveness = AnalyzeLiveness(graph);
  int tail = static_cast<int>(liveness.steps.size());
  while (tail > 0 && IsUpdate(liveness.steps[tail - 1])) --tail;
  std::vector<bool> beside(liveness.steps.size(), false);
  bool rest = false;  // something is left to run beside
  for (int step = tail; step-- > 0;) {
    beside[step] = rest && CanRunBeside(liveness, step, tail, beside);
    rest = rest || !beside[step];
  }
  const std::vector<int> waits = LatestWritersBeside(liveness, beside);
  const auto mark = [&](bool on) {
    int waited_for = -1;
    for (size_t step = 0; step < liveness.steps.size(); ++step) {
      const bool waits_here = waits[step] > waited_for;
      if (waits_here) waited_for = waits[step];
      for (Node* node : liveness.steps[step].nodes) {
        if (beside[step])
          on ? node->SetFact(fact::kStream, int64_t{1}) : node->ClearFact(fact::kStream);
        if (!waits_here) continue;
        const int64_t region = liveness.steps[waits[step]].region;
        on ? node->SetFact(fact::kWaits, region) : node->ClearFact(fact::kWaits);
      }
    }
  };
  mark(true);
  if (PeakBytes(AnalyzeLiveness(graph)) > kSmallProgram) mark(false);
}

}  // namespace stator
