#include "passes/analysis/offset_planner.h"

#include "ir/space.h"

#include <algorithm>
#include <numeric>

namespace stator {
namespace {

using Order = std::vector<int>;

struct Placement {
  std::vector<int64_t> offsets;
  int64_t size = 0;
};

bool Meet(const Interval& a, const Interval& b) { return a.first <= b.last && b.first <= a.last; }

// Places in the given order, each at the lowest offset where it fits between what is placed already
// and alive at the same time.
Placement Place(const std::vector<Interval>& intervals, const Order& order) {
  Placement out;
  out.offsets.assign(intervals.size(), 0);
  std::vector<int> placed;  // by offset
  placed.reserve(intervals.size());
  for (const int i : order) {
    const int64_t bytes = AlignBuffer(intervals[i].bytes);
    if (bytes == 0) continue;
    int64_t at = 0;
    for (const int j : placed) {
      if (!Meet(intervals[i], intervals[j])) continue;
      if (at + bytes <= out.offsets[j]) break;
      at = std::max(at, out.offsets[j] + AlignBuffer(intervals[j].bytes));
    }
    out.offsets[i] = at;
    out.size = std::max(out.size, at + bytes);
    const auto where = std::upper_bound(placed.begin(), placed.end(), at,
                                        [&](int64_t a, int j) { return a < out.offsets[j]; });
    placed.insert(where, i);
  }
  return out;
}

// The buffer that ends the arena goes first in the next attempt: it is the one that found no gap.
void PromoteTop(const std::vector<Interval>& intervals, const Placement& placement, Order* order) {
  for (size_t k = 0; k < order->size(); ++k) {
    const int i = (*order)[k];
    if (placement.offsets[i] + AlignBuffer(intervals[i].bytes) != placement.size) continue;
    if (k == 0) continue;
    std::rotate(order->begin(), order->begin() + static_cast<std::ptrdiff_t>(k),
                order->begin() + static_cast<std::ptrdiff_t>(k) + 1);
    return;
  }
}

}  // namespace

std::vector<int64_t> LiveBytes(const std::vector<Interval>& intervals) {
  int steps = 0;
  for (const Interval& v : intervals) steps = std::max(steps, v.last + 1);
  std::vector<int64_t> change(static_cast<size_t>(steps) + 1, 0);
  for (const Interval& v : intervals) {
    change[v.first] += AlignBuffer(v.bytes);
    change[v.last + 1] -= AlignBuffer(v.bytes);
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  change.resize(steps);
  return change;
}

int64_t PlanOffsets(std::vector<Interval>& intervals) {
  const std::vector<int64_t> live = LiveBytes(intervals);
  const int64_t bound = live.empty() ? 0 : *std::max_element(live.begin(), live.end());
  const auto sorted = [&](auto key) {
    Order order(intervals.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return key(intervals[a]) < key(intervals[b]); });
    return order;
  };
  const Order orders[] = {
      sorted([](const Interval& v) { return std::pair(-v.bytes, v.first); }),  // by size
      sorted([](const Interval& v) { return std::pair<int64_t, int64_t>(v.first, -v.bytes); }),
      sorted([](const Interval& v) {
        return std::pair<int64_t, int64_t>(v.first - v.last, -v.bytes);
      }),
      sorted([](const Interval& v) { return std::pair<int64_t, int64_t>(-v.last, v.first); }),
  };
  Placement best;
  Order best_order;
  const auto consider = [&](const Order& order) {
    Placement p = Place(intervals, order);
    if (best.offsets.empty() || p.size < best.size) {
      best = std::move(p);
      best_order = order;
      return true;
    }
    return false;
  };
  for (const Order& order : orders) {
    if (best.offsets.empty() || best.size > bound) consider(order);
  }
  // A few repairs of the best order, as long as they help or the plan stays wasteful.
  Order order = best_order;
  Placement last = best;
  for (int attempt = 0; attempt < 16 && best.size > bound + bound / 200; ++attempt) {
    PromoteTop(intervals, last, &order);
    last = Place(intervals, order);
    if (last.size < best.size) best = last;
  }
  for (size_t i = 0; i < intervals.size(); ++i) intervals[i].offset = best.offsets[i];
  return best.size;
}

}  // namespace stator
