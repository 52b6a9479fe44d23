#include "codegen/window.h"

#include <algorithm>
#include <set>

namespace stator {
namespace {

using Run = Window::Run;

int64_t Span(std::span<const Run> runs) {  // from the first to the last
  int64_t span = 0;
  for (const Run& r : runs) span += (r.count - 1) * r.stride;
  return span;
}

// Sorted, without runs of one, with runs that continue each other as one.
Window Normal(int64_t at, std::vector<Run> runs) {
  std::erase_if(runs, [](const Run& r) { return r.count == 1; });
  std::sort(runs.begin(), runs.end(),
            [](const Run& a, const Run& b) { return a.stride > b.stride; });
  Window w{at};
  for (const Run& r : runs) {
    if (!w.runs.empty() && w.runs.back().stride == r.count * r.stride) {
      w.runs.back() = {w.runs.back().count * r.count, r.stride};
    } else {
      w.runs.push_back(r);
    }
  }
  return w;
}

// The part of `axis` in [low, high).
void ClipAxis(const AxisWindow& axis, int64_t low, int64_t high, std::vector<AxisWindow>* out) {
  if (axis.runs.empty()) {
    if (low <= axis.first && axis.first < high) out->push_back(axis);
    return;
  }
  const auto [count, stride] = axis.runs[0];
  const AxisWindow rest{axis.first, {axis.runs.begin() + 1, axis.runs.end()}};
  const int64_t first = axis.first, last = first + Span(rest.runs);  // of a turn of the first run
  const auto floor = [stride = stride](int64_t a) {
    return a < 0 ? -((-a + stride - 1) / stride) : a / stride;
  };
  const auto turn = [&](int64_t i) { return AxisWindow{first + i * stride, rest.runs}; };
  // Turns that are inside at all, and those that are wholly.
  const int64_t begin = std::max<int64_t>(0, -floor(last - low)),
                end = std::min(count - 1, floor(high - 1 - first));
  const int64_t whole = std::max<int64_t>(0, -floor(first - low)),
                whole_end = std::min(count - 1, floor(high - 1 - last));
  if (whole <= whole_end) {
    AxisWindow inside = turn(whole);
    inside.runs.insert(inside.runs.begin(), {whole_end - whole + 1, stride});
    out->push_back(inside);
  }
  for (int64_t i = begin; i <= end; ++i) {
    if (whole <= i && i <= whole_end)
      i = whole_end;
    else
      ClipAxis(turn(i), low, high, out);
  }
}

// A range of indices on every axis.
struct Range {
  int64_t begin, end;
};
using Box = std::vector<Range>;

int64_t Volume(std::span<const Box> boxes, size_t axis) {
  if (boxes.empty()) return 0;
  if (axis == boxes[0].size()) return 1;
  std::set<int64_t> cuts;
  for (const Box& b : boxes) cuts.insert({b[axis].begin, b[axis].end});
  int64_t volume = 0;
  for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
    std::vector<Box> here;
    for (const Box& b : boxes) {
      if (b[axis].begin <= *cut && *cut < b[axis].end) here.push_back(b);
    }
    volume += (*std::next(cut) - *cut) * Volume(here, axis + 1);
  }
  return volume;
}

// The windows as boxes of one shape, whose axes are their strides.
std::optional<std::vector<Box>> BoxesOf(const std::set<Window>& windows, int64_t elements) {
  std::set<int64_t> strides = {1};
  for (const Window& w : windows) {
    for (const Run& r : w.runs) strides.insert(r.stride);
  }
  Dims shape;
  int64_t above = 0;
  for (auto s = strides.rbegin(); s != strides.rend(); ++s) {
    if (above % *s != 0) return std::nullopt;
    shape.push_back(above == 0 ? (elements + *s - 1) / *s : above / *s);
    above = *s;
  }
  std::vector<Box> boxes;
  for (const Window& w : windows) {
    const auto axes = SplitByAxes(w, shape);
    if (!axes) return std::nullopt;
    boxes.emplace_back();
    for (const AxisWindow& a : *axes) {
      if (a.runs.size() > 1 || (a.runs.size() == 1 && a.runs[0].stride != 1)) return std::nullopt;
      boxes.back().push_back({a.first, a.first + (a.runs.empty() ? 1 : a.runs[0].count)});
    }
  }
  return boxes;
}

}  // namespace

int64_t Window::Count() const {
  int64_t count = 1;
  for (const Run& r : runs) count *= r.count;
  return count;
}

Window Whole(int64_t elements) { return Normal(0, {{elements, 1}}); }

std::optional<std::vector<AxisWindow>> SplitByAxes(const Window& w, const Dims& shape) {
  std::vector<AxisWindow> axes(shape.size());
  std::vector<Run> left = w.runs;  // in units of the axis at hand
  int64_t at = w.at;
  for (size_t k = shape.size(); k-- > 0;) {
    const int64_t n = shape[k];
    AxisWindow& axis = axes[k];
    axis.first = at % n;
    at /= n;
    std::vector<Run> above;
    for (const Run& r : left) {
      if (r.stride >= n) {
        if (r.stride % n != 0) return std::nullopt;
        above.push_back({r.count, r.stride / n});
      } else if ((r.count - 1) * r.stride < n) {
        axis.runs.push_back(r);
      } else {
        const int64_t here = n / r.stride;
        if (n % r.stride != 0 || r.count % here != 0) return std::nullopt;
        axis.runs.push_back({here, r.stride});
        above.push_back({r.count / here, 1});
      }
    }
    if (axis.first + Span(axis.runs) >= n) return std::nullopt;
    left = Normal(0, std::move(above)).runs;
  }
  if (at != 0 || !left.empty()) return std::nullopt;
  return axes;
}

std::optional<Window> Through(const Window& w, const Dims& shape, const Dims& strides, int64_t at) {
  const auto axes = SplitByAxes(w, shape);
  if (!axes) return std::nullopt;
  std::vector<Run> runs;
  for (size_t k = 0; k < shape.size(); ++k) {
    at += (*axes)[k].first * strides[k];
    if (strides[k] == 0) continue;
    for (const Run& r : (*axes)[k].runs) runs.push_back({r.count, r.stride * strides[k]});
  }
  return Normal(at, std::move(runs));
}

std::optional<std::vector<Window>> Clip(const Window& w, const Dims& shape, int64_t low,
                                        int64_t size) {
  const auto axes = SplitByAxes(w, shape);
  if (!axes) return std::nullopt;
  const AxisWindow &outer = (*axes)[0], &inner = (*axes)[2];
  std::vector<AxisWindow> middle;
  ClipAxis((*axes)[1], low, low + size, &middle);
  std::vector<Window> parts;
  for (const AxisWindow& m : middle) {
    std::vector<Run> runs = inner.runs;
    for (const Run& r : m.runs) runs.push_back({r.count, r.stride * shape[2]});
    for (const Run& r : outer.runs) runs.push_back({r.count, r.stride * size * shape[2]});
    parts.push_back(
        Normal((outer.first * size + m.first - low) * shape[2] + inner.first, std::move(runs)));
  }
  return parts;
}

int64_t CountUnion(std::span<const Window> windows, int64_t elements) {
  const std::set<Window> distinct(windows.begin(), windows.end());
  int64_t sum = 0;
  for (const Window& w : distinct) sum += w.Count();
  if (distinct.size() < 2 || distinct.contains(Whole(elements))) return std::min(sum, elements);
  const auto boxes = BoxesOf(distinct, elements);
  return boxes ? Volume(*boxes, 0) : std::min(sum, elements);
}

}  // namespace stator
