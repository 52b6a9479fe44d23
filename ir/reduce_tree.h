// The one order in which a reduction combines its elements (DESIGN section 5). It depends on the
// shape alone; interpreter and emitters implement this description, whatever their tiles, vector
// widths and threads.
//
// A reduction over several axes is done one run of adjacent axes at a time, innermost run first;
// axes of size 1 join either neighbour. With n the product of a run's sizes:
//
// Row kind (the run contains the innermost axis that is not of size 1). Split n into blocks of
// RowBlock(rows) consecutive elements, where rows is the number of rows reduced alike (the last one
// may be short). In a block of m elements there are W = min(kRowLanes, bit_ceil(m)) lanes; lane j
// folds elements j, j+W, j+2W, ... in that order, starting from the first (no identity is mixed
// in). Lanes are then combined pairwise, neighbours first: for s = 1, 2, 4, ... < W: lane[j] =
// lane[j] op lane[j+s] for j a multiple of 2s; a pair whose right side is empty keeps its left
// side. The blocks' results are reduced by the same rule until one is left.
//
// Column kind (elements of the run are `inner` apart). Split n into chunks of ColumnChunk(n)
// consecutive elements; in a chunk, W = min(kColumnLanes, bit_ceil(m)) lanes fold and combine as
// above. The chunks' results are reduced by the same rule until one is left.
//
// Accumulators are f32 for f32 and narrower, f64 for f64, the dtype itself for integers. Partial
// results stay in the accumulator's type; the final one is rounded once to the result dtype.
// An empty reduction gives the identity. Log-sum-exps of long rows may be combined otherwise (op
// online_logsumexp).
#pragma once

#include <bit>
#include <cstdint>

namespace stator {

inline constexpr int64_t kRowBlock = 32768;
inline constexpr int64_t kLongRowBlock = int64_t{1} << 20;
inline constexpr int64_t kManyRows = 64;
inline constexpr int64_t kRowLanes = 1024;
inline constexpr int64_t kColumnLanes = 8;
inline constexpr int64_t kColumnPartials = 512;  // at most this many chunks

constexpr int64_t BitCeil(int64_t n) {
  return n <= 1 ? 1 : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)));
}

// Elements of a row's block: many rows are parallel enough, few are split further.
constexpr int64_t RowBlock(int64_t rows) { return rows >= kManyRows ? kLongRowBlock : kRowBlock; }

// Elements a chunk of a column reduction over n elements: 1 chunk up to 512, then at most 512.
constexpr int64_t ColumnChunk(int64_t n) {
  if (n <= kColumnPartials) return n < 1 ? 1 : n;
  const int64_t chunk = BitCeil((n + kColumnPartials - 1) / kColumnPartials);
  return chunk < 64 ? 64 : chunk;
}

// Folds `n` elements `get(0..n-1)` with lanes as above. `Get` returns the accumulator type.
template <typename Acc, typename Get, typename Combine>
Acc FoldLanes(int64_t n, int64_t max_lanes, Acc* lanes, const Get& get, const Combine& combine) {
  const int64_t width = BitCeil(n) < max_lanes ? BitCeil(n) : max_lanes;
  const int64_t filled = n < width ? n : width;
  for (int64_t j = 0; j < filled; ++j) lanes[j] = get(j);
  for (int64_t k = width; k < n; ++k) lanes[k % width] = combine(lanes[k % width], get(k));
  for (int64_t s = 1; s < width; s *= 2) {
    for (int64_t j = 0; j + s < filled; j += 2 * s) lanes[j] = combine(lanes[j], lanes[j + s]);
  }
  return lanes[0];
}

}  // namespace stator
