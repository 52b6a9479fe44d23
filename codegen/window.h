// Windows: the elements of a tensor that a slice, a transposition or half a head picks, as strides
// over its row-major positions. What a kernel reads of a buffer is counted with them.
#pragma once

#include "ir/type.h"

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace stator {

// Positions at + sum of i * stride, 0 <= i < count, over the runs. Each is there once: runs fall by
// stride, and a stride is beyond what the smaller runs span. No run has fewer than 2.
struct Window {
  struct Run {
    int64_t count, stride;
    auto operator<=>(const Run&) const = default;
  };
  int64_t at = 0;
  std::vector<Run> runs{};

  int64_t Count() const;
  auto operator<=>(const Window&) const = default;
};

// All of `elements` > 0 elements.
Window Whole(int64_t elements);

// A window's positions along one axis: `first` + what the runs add.
struct AxisWindow {
  int64_t first = 0;
  std::vector<Window::Run> runs{};
};
// The axes of a window on a dense tensor of `shape`; nothing where it is no product of what it is
// on each axis, as 4 elements from the middle of a row on.
std::optional<std::vector<AxisWindow>> SplitByAxes(const Window& w, const Dims& shape);

// What `w` on a value of `shape` is on its operand, where the value's element i has position at +
// sum of i[k] * strides[k]. A stride of 0 repeats elements, which count once.
std::optional<Window> Through(const Window& w, const Dims& shape, const Dims& strides, int64_t at);

// What `w` on [outer, extent, inner] is on the part [low, low + size) of the middle axis, in the
// part's own positions: more than one window where it cuts runs.
std::optional<std::vector<Window>> Clip(const Window& w, const Dims& shape, int64_t low,
                                        int64_t size);

// How many of a tensor's `elements` are in some window. Exact where each window is a box of one
// shape's axes, as those of slices are; others that overlap count each, up to all elements.
int64_t CountUnion(std::span<const Window> windows, int64_t elements);

}  // namespace stator
