// Sums of rows by index, each segment folded in the order of positions by the column rule of
// ir/reduce_tree.h: the same bits for any number of threads.
#include "ir/base/error.h"
#include "ir/reduce_tree.h"
#include "runtime/cpu/library_steps.h"
#include "runtime/cpu/numbers.h"

#include <omp.h>

#include <algorithm>
#include <atomic>

namespace stator {
namespace {

constexpr int64_t kWidth = 64;  // columns that are folded together

// The positions of each row's updates: those of row r are order[starts[r] .. starts[r + 1]).
struct Segments {
  int64_t *starts, *order;
};

Segments Place(const SegmentSumCall& call, char* shared) {
  auto* words = reinterpret_cast<int64_t*>(shared);
  return {words, words + call.out.type.dim(0) + 1};
}

// Stable counting sort.
void Group(const SegmentSumCall& call, const char* indices, const Segments& s) {
  const int64_t rows = call.out.type.dim(0), n = call.updates.type.dim(0);
  const DType dtype = call.indices.type.dtype;
  std::fill(s.starts, s.starts + rows + 1, 0);
  for (int64_t k = 0; k < n; ++k) {
    const int64_t row = LoadInteger(dtype, indices, k);
    if (row < 0 || row >= rows) {
      Fail(ErrorCode::kInvalidArgument, "segment_sum: index ", row, " at position ", k,
           " is not in [0, ", rows, ")");
    }
    ++s.starts[row + 1];
  }
  for (int64_t r = 0; r < rows; ++r) s.starts[r + 1] += s.starts[r];
  // Each start moves to its segment's end while the segment fills, and back one place at the end.
  for (int64_t k = 0; k < n; ++k) s.order[s.starts[LoadInteger(dtype, indices, k)]++] = k;
  std::copy_backward(s.starts, s.starts + rows, s.starts + rows + 1);
  s.starts[0] = 0;
}

template <typename Acc>
Acc LoadAcc(DType dtype, const char* base, int64_t k) {
  if constexpr (std::is_same_v<Acc, uint64_t>) {
    return static_cast<uint64_t>(LoadInteger(dtype, base, k));
  } else {
    return static_cast<Acc>(LoadNumber(dtype, base, k));
  }
}

// Columns [0, width) of lane sums, folded as FoldLanes does.
template <typename Acc>
struct Lanes {
  Acc sum[kColumnLanes][kWidth];

  // `row(k)` gives a pointer to `width` numbers.
  template <typename Row>
  void Fold(int64_t n, int64_t width, const Row& row, Acc* out) {
    const int64_t lanes = std::min(BitCeil(n), kColumnLanes), filled = std::min(lanes, n);
    for (int64_t j = 0; j < filled; ++j) std::copy_n(row(j), width, sum[j]);
    for (int64_t k = lanes; k < n; ++k) Add(sum[k % lanes], row(k), width);
    for (int64_t s = 1; s < lanes; s *= 2) {
      for (int64_t j = 0; j + s < filled; j += 2 * s) Add(sum[j], sum[j + s], width);
    }
    std::copy_n(sum[0], width, out);
  }

  static void Add(Acc* to, const Acc* from, int64_t width) {
#pragma omp simd
    for (int64_t c = 0; c < width; ++c) to[c] += from[c];
  }
};

template <typename Acc>
struct ThreadSpace {
  Lanes<Acc> lanes;
  Acc widened[kWidth];
  Acc partials[kColumnPartials][kWidth];
};

template <typename Acc>
void SumSegment(const SegmentSumCall& call, const char* updates, const int64_t* order, int64_t n,
                int64_t column, int64_t width, ThreadSpace<Acc>& mine, Acc* sum) {
  const DType dtype = call.updates.type.dtype;
  const Dims& strides = call.updates.strides;
  constexpr DType kSame = std::is_same_v<Acc, float> ? DType::kF32 : DType::kF64;
  const bool direct = dtype == kSame && strides[1] == 1;
  const auto row = [&](int64_t k) -> const Acc* {
    const int64_t at = order[k] * strides[0] + column * strides[1];
    if (direct) return reinterpret_cast<const Acc*>(updates) + at;
    for (int64_t c = 0; c < width; ++c) {
      mine.widened[c] = LoadAcc<Acc>(dtype, updates, at + c * strides[1]);
    }
    return mine.widened;
  };
  const int64_t chunk = ColumnChunk(n), chunks = (n + chunk - 1) / chunk;
  if (chunks == 1) return mine.lanes.Fold(n, width, row, sum);
  for (int64_t i = 0; i < chunks; ++i) {
    const int64_t first = i * chunk;
    mine.lanes.Fold(
        std::min(chunk, n - first), width, [&](int64_t k) { return row(first + k); },
        mine.partials[i]);
  }
  // At most kColumnPartials of them: one more chunk.
  mine.lanes.Fold(
      chunks, width, [&](int64_t k) { return mine.partials[k]; }, sum);
}

template <typename Acc>
void Run(const SegmentSumCall& call, const CpuMemory& memory, const CpuScratch& scratch) {
  const Segments segments = Place(call, scratch.shared());
  Group(call, memory.At(call.indices.buffer), segments);
  const char* updates = memory.At(call.updates.buffer);
  char* out = memory.At(call.out.buffer);
  const int64_t rows = call.out.type.dim(0), columns = call.out.type.dim(1);
  const int64_t blocks = (columns + kWidth - 1) / kWidth;
  const DType dtype = call.out.type.dtype;
  const Dims& strides = call.out.strides;
#pragma omp parallel for schedule(dynamic, 16) num_threads(scratch.threads())
  for (int64_t item = 0; item < rows * blocks; ++item) {
    auto& mine = *reinterpret_cast<ThreadSpace<Acc>*>(scratch.ForThread(omp_get_thread_num()));
    const int64_t r = item / blocks, column = item % blocks * kWidth;
    const int64_t width = std::min(kWidth, columns - column);
    const int64_t first = segments.starts[r], n = segments.starts[r + 1] - first;
    if (call.accumulate && n == 0) continue;
    Acc sum[kWidth] = {};
    if (n > 0) SumSegment<Acc>(call, updates, segments.order + first, n, column, width, mine, sum);
    for (int64_t c = 0; c < width; ++c) {
      const int64_t at = r * strides[0] + (column + c) * strides[1];
      if constexpr (std::is_same_v<Acc, uint64_t>) {
        StoreInteger(dtype, out, at, static_cast<int64_t>(sum[c]));
      } else {
        StoreNumber(dtype, out, at,
                    call.accumulate ? LoadAcc<Acc>(dtype, out, at) + sum[c] : sum[c]);
      }
    }
  }
}

}  // namespace

ScratchNeed SegmentSumScratch(const SegmentSumCall& call) {
  const int64_t words = call.out.type.dim(0) + 1 + call.updates.type.dim(0);
  return {words * 8, static_cast<int64_t>(sizeof(ThreadSpace<double>))};
}

void RunSegmentSum(const SegmentSumCall& call, const CpuMemory& memory, const CpuScratch& scratch) {
  const DType dtype = call.updates.type.dtype;
  if (dtype == DType::kF64) return Run<double>(call, memory, scratch);
  if (IsFloat(dtype)) return Run<float>(call, memory, scratch);
  Run<uint64_t>(call, memory, scratch);
}

}  // namespace stator
