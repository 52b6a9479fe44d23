#include "passes/analysis/schedule.h"

#include <algorithm>
#include <set>
#include <utility>

namespace stator {
namespace {

// Steps in the order of a set of (class, number) keys that may change while a step waits.
class ReadyList {
 public:
  explicit ReadyList(int num_steps) : class_(num_steps, 1), ready_(num_steps, false) {}

  void SetClass(int step, int c) {
    if (class_[step] == c) return;
    if (ready_[step]) set_.erase({class_[step], step});
    class_[step] = c;
    if (ready_[step]) set_.insert({c, step});
  }
  void Add(int step) {
    ready_[step] = true;
    set_.insert({class_[step], step});
  }
  bool empty() const { return set_.empty(); }
  int Take() {
    const int step = set_.begin()->second;
    set_.erase(set_.begin());
    ready_[step] = false;
    return step;
  }

 private:
  std::vector<int> class_;
  std::vector<bool> ready_;
  std::set<std::pair<int, int>> set_;
};

std::vector<int> CountPredecessors(const ScheduleProblem& problem) {
  std::vector<int> waits(problem.num_steps, 0);
  for (const auto& successors : problem.successors) {
    for (const int s : successors) ++waits[s];
  }
  return waits;
}

// `on_take(step)` may change the class of waiting steps.
template <typename OnTake>
std::vector<int> ListSchedule(const ScheduleProblem& problem, ReadyList& ready,
                              const OnTake& on_take) {
  std::vector<int> waits = CountPredecessors(problem), order;
  for (int s = 0; s < problem.num_steps; ++s) {
    if (waits[s] == 0) ready.Add(s);
  }
  while (!ready.empty()) {
    const int step = ready.Take();
    order.push_back(step);
    on_take(step);
    for (const int s : problem.successors[step]) {
      if (--waits[s] == 0) ready.Add(s);
    }
  }
  return order;
}

}  // namespace

bool AddEdgeIfAcyclic(ScheduleProblem& problem, int before, int after) {
  if (before == after) return false;
  std::vector<int> pending = {after};
  std::vector<bool> seen(problem.num_steps, false);
  while (!pending.empty()) {
    const int step = pending.back();
    pending.pop_back();
    if (step == before) return false;
    if (seen[step]) continue;
    seen[step] = true;
    for (const int s : problem.successors[step]) pending.push_back(s);
  }
  problem.successors[before].push_back(after);
  return true;
}

std::vector<int> OrderAsWanted(const ScheduleProblem& problem) {
  ReadyList ready(problem.num_steps);
  return ListSchedule(problem, ready, [](int) {});
}

std::vector<int> OrderForMemory(const ScheduleProblem& problem) {
  std::vector<std::vector<int>> reads(problem.num_steps);
  std::vector<int64_t> growth(problem.num_steps, 0);  // allocated less freed, were it next
  std::vector<int> left(problem.buffers.size(), 0);   // readers to come
  ReadyList ready(problem.num_steps);
  const auto free_by = [&](int step, int64_t bytes) {
    growth[step] -= bytes;
    ready.SetClass(step, growth[step] < 0 ? 0 : 1);
  };
  // A buffer is freed by its last reader, known when one is left; readers are a sum to find it by.
  std::vector<int64_t> reader_sum(problem.buffers.size(), 0);
  for (size_t b = 0; b < problem.buffers.size(); ++b) {
    const auto& buffer = problem.buffers[b];
    growth[buffer.writer] += buffer.bytes;
    left[b] = static_cast<int>(buffer.readers.size());
    for (const int r : buffer.readers) {
      reads[r].push_back(static_cast<int>(b));
      reader_sum[b] += r;
    }
  }
  for (size_t b = 0; b < problem.buffers.size(); ++b) {
    const auto& buffer = problem.buffers[b];
    if (buffer.to_end) continue;
    if (left[b] == 1) free_by(buffer.readers[0], buffer.bytes);
  }
  return ListSchedule(problem, ready, [&](int step) {
    for (const int b : reads[step]) {
      reader_sum[b] -= step;
      if (--left[b] != 1 || problem.buffers[b].to_end) continue;
      free_by(static_cast<int>(reader_sum[b]), problem.buffers[b].bytes);
    }
  });
}

int64_t PeakBytes(const ScheduleProblem& problem, const std::vector<int>& order,
                  const std::vector<int>& ends) {
  std::vector<int> at(problem.num_steps, 0);
  for (size_t k = 0; k < order.size(); ++k) at[order[k]] = static_cast<int>(k);
  std::vector<int64_t> change(order.size() + 1, 0);
  for (const auto& buffer : problem.buffers) {
    int last = at[buffer.writer];
    for (const int r : buffer.readers) last = std::max(last, at[r]);
    if (!ends.empty()) last = ends[last];
    if (buffer.to_end) last = static_cast<int>(order.size()) - 1;
    change[at[buffer.writer]] += buffer.bytes;
    change[last + 1] -= buffer.bytes;
  }
  int64_t live = 0, peak = 0;
  for (const int64_t c : change) peak = std::max(peak, live += c);
  return peak;
}

}  // namespace stator
