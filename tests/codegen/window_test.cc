// Windows against the positions that they stand for, written out.
#include "codegen/window.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace stator {
namespace {

std::set<int64_t> Positions(const Window& w) {
  std::set<int64_t> all = {w.at};
  for (const Window::Run& r : w.runs) {
    std::set<int64_t> next;
    for (const int64_t p : all) {
      for (int64_t i = 0; i < r.count; ++i) next.insert(p + i * r.stride);
    }
    all = std::move(next);
  }
  return all;
}

// A slice of a dense tensor, by steps where `steps`.
Window RandomWindow(std::mt19937& random, const Dims& shape) {
  const Dims dense = DenseStrides(shape);
  Dims counts, strides;
  int64_t at = 0;
  for (size_t k = 0; k < shape.size(); ++k) {
    const int64_t step = random() % 4 == 0 ? 2 : 1, start = random() % shape[k],
                  most = (shape[k] - start + step - 1) / step;
    counts.push_back(random() % 2 == 0 ? 1 + random() % most : most);
    strides.push_back(dense[k] * step);
    at += start * dense[k];
  }
  return *Through(Whole(NumElements(counts)), counts, strides, at);
}

int64_t Digit(int64_t flat, const Dims& shape, size_t k) {
  return flat / DenseStrides(shape)[k] % shape[k];
}

TEST(Window, is_a_slice_of_a_slice) {
  const Window rows = *Through(Whole(2 * 6), {2, 6}, {6, 1}, 6);  // rows 1 and 2 of [4,6]
  EXPECT_EQ(rows, (Window{6, {{12, 1}}}));
  const Window heads = *Through(Whole(3 * 4), {3, 4}, {24, 1}, 8);
  EXPECT_EQ(heads, (Window{8, {{3, 24}, {4, 1}}}));
  EXPECT_EQ(*Through(Whole(5 * 7), {5, 7}, {0, 1}, 0), Whole(7));  // a row that repeats
  EXPECT_FALSE(Through({3, {{5, 1}}}, {4, 6}, {1, 4}, 0));         // from the middle of a row on
}

TEST(Window, moves_as_its_positions_do) {
  std::mt19937 random(1);
  for (int turn = 0; turn < 2000; ++turn) {
    const Dims shape = {2, 6, 4};
    const Window w = RandomWindow(random, shape);
    const Dims strides = turn % 2 == 0 ? Dims{4, 8, 1} : Dims{40, 0, 10};
    const auto moved = Through(w, shape, strides, 3);
    ASSERT_TRUE(moved);
    std::set<int64_t> expected;
    for (const int64_t p : Positions(w)) {
      int64_t at = 3;
      for (size_t k = 0; k < shape.size(); ++k) at += Digit(p, shape, k) * strides[k];
      expected.insert(at);
    }
    EXPECT_EQ(Positions(*moved), expected);
    EXPECT_EQ(moved->Count(), static_cast<int64_t>(expected.size()));
  }
}

TEST(Window, is_clipped_to_a_part) {
  std::mt19937 random(2);
  for (int turn = 0; turn < 2000; ++turn) {
    const Dims shape = {2, 12, 3};
    const Window w = RandomWindow(random, turn % 2 == 0 ? shape : Dims{2, 3, 4, 3});
    const int64_t low = random() % 12, size = 1 + random() % (12 - low);
    const auto parts = Clip(w, shape, low, size);
    ASSERT_TRUE(parts);
    std::set<int64_t> expected, found;
    for (const int64_t p : Positions(w)) {
      const int64_t middle = Digit(p, shape, 1) - low;
      if (middle < 0 || middle >= size) continue;
      expected.insert((Digit(p, shape, 0) * size + middle) * 3 + Digit(p, shape, 2));
    }
    int64_t count = 0;
    for (const Window& part : *parts) {
      found.merge(Positions(part));
      count += part.Count();
    }
    EXPECT_EQ(found, expected);
    EXPECT_EQ(count, static_cast<int64_t>(expected.size()));
  }
}

TEST(Window, shared_elements_count_once) {
  std::mt19937 random(3);
  int exact = 0;
  for (int turn = 0; turn < 2000; ++turn) {
    const Dims shape = {3, 4, 6};
    std::vector<Window> windows;
    std::set<int64_t> expected;
    for (size_t i = 0; i <= random() % 4; ++i) {
      windows.push_back(RandomWindow(random, shape));
      expected.merge(Positions(windows.back()));
    }
    const int64_t count = CountUnion(windows, NumElements(shape)),
                  least = static_cast<int64_t>(expected.size());
    EXPECT_GE(count, least);
    EXPECT_LE(count, NumElements(shape));
    exact += count == least;
  }
  EXPECT_GT(exact, 1600);  // by steps that do not fit each other, some are only bounded
  const Window low{0, {{5, 16}, {8, 1}}}, high{8, {{5, 16}, {8, 1}}}, middle{4, {{5, 16}, {8, 1}}};
  EXPECT_EQ(CountUnion(std::vector{low, low}, 80), 40);
  EXPECT_EQ(CountUnion(std::vector{low, high}, 80), 80);
  EXPECT_EQ(CountUnion(std::vector{low, middle}, 80), 60);
}

}  // namespace
}  // namespace stator
