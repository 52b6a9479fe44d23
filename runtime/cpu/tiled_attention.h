// One attention call seen by rows, keys and tiles: sizes, masks, packing. Shared by the forward and
// backward drivers (attention_forward.cc, attention_backward.cc).
#pragma once

#include "codegen/plan.h"
#include "runtime/cpu/attention_tiles.h"
#include "runtime/cpu/memory.h"
#include "runtime/cpu/numbers.h"
#include "runtime/cpu/scratch.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace stator {

inline constexpr int64_t kQueryTile = 32, kKeyTile = 256;
inline constexpr int64_t kKeptSpace = kKeyTile + 48;  // whole groups of random blocks about a tile
inline constexpr int64_t kTilePad = 16;  // columns are padded to this, a multiple of any vector

constexpr int64_t PadTile(int64_t n) { return (n + kTilePad - 1) / kTilePad * kTilePad; }

template <typename T>
const AttentionTiles<T>& BestTiles();

template <typename T>
class TiledAttention {
 public:
  TiledAttention(const AttentionCall& call, const CpuMemory& memory);

  // Sizes as in ir op `attention`: q [B,T,H,D], k and v [B,S,G,D].
  int64_t batch, queries, heads, dim, keys, groups;
  int64_t dim_pad, keys_pad;
  const AttentionCall& call;

  struct Range {
    int64_t first, last;  // [first, last)
    int64_t size() const { return std::max<int64_t>(0, last - first); }
  };
  // Keys that exist for a batch entry, by key_lengths.
  int64_t KeyCount(int64_t b) const;
  // Keys that causality, window and length let query t see.
  Range SeenBy(int64_t b, int64_t t) const;
  // The union over queries [t, t + rows), from a multiple of the padding.
  Range SeenByTile(int64_t b, int64_t t, int64_t rows) const;

  // [rows, dim_pad], times `factor`.
  void PackRows(const TensorRef& x, int64_t b, int64_t t, int64_t rows, int64_t head, T factor,
                T* to) const;
  // Keys [first, last) as [dim_pad, ld], zero up to the padding; `block` has room for 16 rows.
  void PackTransposed(const AttentionTiles<T>& tiles, const TensorRef& x, int64_t b, int64_t group,
                      Range keys_range, int64_t ld, T* block, T* to) const;
  void StoreRows(const TensorRef& x, int64_t b, int64_t t, int64_t rows, int64_t head, T factor,
                 const T* from) const;

  // The statistics of row (b, h, t): lse, dlse.
  T LoadRowStat(const TensorRef& x, int64_t b, int64_t h, int64_t t) const;
  void StoreRowStat(const TensorRef& x, int64_t b, int64_t h, int64_t t, T v) const;

  // Scores of a tile: scaled products of packed queries (scale is in them) with transposed keys,
  // bias added, -inf where a query does not see a key. `keys_t` begins at key `first`.
  void Scores(const AttentionTiles<T>& tiles, int64_t b, int64_t h, int64_t t, int64_t rows,
              Range tile, const T* q, const T* keys_t, int64_t ld, T* scores) const;

  // What dropout multiplies the softmax values of keys [first, first + n) by, as a pointer into
  // `space` of kKeptSpace elements.
  T* Kept(const AttentionTiles<T>& tiles, int64_t b, int64_t h, int64_t t, int64_t first, int64_t n,
          T* space) const;

  char* At(const TensorRef& x) const { return memory_.At(x.buffer); }
  int64_t GroupOf(int64_t h) const { return h / (heads / groups); }

 private:
  const CpuMemory& memory_;
};

// Whether no element is infinite or NaN.
template <typename T>
bool AllFinite(const T* x, int64_t n) {
  T sum = 0;  // of zeros, NaN after anything else
#pragma omp simd reduction(+ : sum)
  for (int64_t k = 0; k < n; ++k) sum += x[k] * 0;
  return sum == 0;
}

// AttentionTiles::gemm that adds to c and does not read what a zero of `a` would multiply: a
// masked infinity or NaN times zero would be NaN. For operands that are not finite, as it is slow.
template <typename T>
void AddWithoutZeros(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row, int64_t a_column,
                     const T* b, int64_t ldb, T* c, int64_t ldc) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t p = 0; p < k; ++p) {
      const T factor = a[i * a_row + p * a_column];
      if (factor == 0) continue;
      for (int64_t j = 0; j < n; ++j) c[i * ldc + j] += factor * b[p * ldb + j];
    }
  }
}

inline constexpr bool IsWide(const AttentionCall& call) { return call.q.type.dtype == DType::kF64; }

template <typename T>
struct AttentionForward {
  static int64_t ThreadBytes(const AttentionCall& call);
  static void Run(const AttentionCall& call, const CpuMemory& memory, const CpuScratch& scratch);
};

template <typename T>
struct AttentionBackward {
  static int64_t ThreadBytes(const AttentionCall& call);
  static void Run(const AttentionCall& call, const CpuMemory& memory, const CpuScratch& scratch);
};

// Hands out pieces of a thread's scratch; of none, to find out how much is needed.
template <typename T>
class Pieces {
 public:
  explicit Pieces(char* at) : at_(reinterpret_cast<T*>(at)) {}
  T* Take(int64_t n) {
    const int64_t begin = used_;
    used_ += PadTile(n);
    return at_ == nullptr ? nullptr : at_ + begin;
  }
  int64_t bytes() const { return used_ * static_cast<int64_t>(sizeof(T)); }

 private:
  T* at_;
  int64_t used_ = 0;
};

}  // namespace stator
