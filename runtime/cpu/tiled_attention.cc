#include "runtime/cpu/tiled_attention.h"

#include <cmath>

namespace stator {
namespace {

// to[c] = load(c * stride) * factor; the contiguous case apart, for the compiler's sake.
template <typename T, typename Load>
void LoadEach(int64_t stride, int64_t n, T factor, T* to, const Load& load) {
  if (stride == 1) {
#pragma omp simd
    for (int64_t c = 0; c < n; ++c) to[c] = static_cast<T>(load(c)) * factor;
  } else {
    for (int64_t c = 0; c < n; ++c) to[c] = static_cast<T>(load(c * stride)) * factor;
  }
}

template <typename T>
void LoadRow(DType dtype, const char* base, int64_t at, int64_t stride, int64_t n, T factor,
             T* to) {
  if (dtype == DType::kF32) {
    const float* from = reinterpret_cast<const float*>(base) + at;
    LoadEach(stride, n, factor, to, [from](int64_t c) { return from[c]; });
  } else if (dtype == DType::kBF16) {
    const uint16_t* from = reinterpret_cast<const uint16_t*>(base) + at;
    LoadEach(stride, n, factor, to, [from](int64_t c) { return FromBF16(from[c]); });
  } else {
    LoadEach(stride, n, factor, to, [&](int64_t c) { return LoadNumber(dtype, base, at + c); });
  }
}

template <typename T>
void StoreRow(DType dtype, char* base, int64_t at, int64_t stride, int64_t n, T factor,
              const T* from) {
  if (stride == 1 && dtype == DType::kF32) {
    float* to = reinterpret_cast<float*>(base) + at;
#pragma omp simd
    for (int64_t c = 0; c < n; ++c) to[c] = static_cast<float>(from[c] * factor);
  } else if (stride == 1 && dtype == DType::kBF16) {
    uint16_t* to = reinterpret_cast<uint16_t*>(base) + at;
#pragma omp simd
    for (int64_t c = 0; c < n; ++c) to[c] = ToBF16(static_cast<float>(from[c] * factor));
  } else {
    for (int64_t c = 0; c < n; ++c) StoreNumber(dtype, base, at + c * stride, from[c] * factor);
  }
}

}  // namespace

template <>
const AttentionTiles<float>& BestTiles<float>() {
  if (const auto* tiles = Avx512Tiles()) return *tiles;
  if (const auto* tiles = Avx2Tiles()) return *tiles;
  return *PortableTiles();
}

template <>
const AttentionTiles<double>& BestTiles<double>() {
  return *PortableTiles64();
}

template <typename T>
TiledAttention<T>::TiledAttention(const AttentionCall& c, const CpuMemory& memory)
    : call(c), memory_(memory) {
  const Dims &q = c.q.type.shape, &k = c.k.type.shape;
  batch = q[0], queries = q[1], heads = q[2], dim = q[3], keys = k[1], groups = k[2];
  dim_pad = PadTile(dim), keys_pad = PadTile(keys);
}

template <typename T>
int64_t TiledAttention<T>::KeyCount(int64_t b) const {
  if (!call.key_lengths) return keys;
  const int64_t length = LoadInteger(call.key_lengths.type.dtype, At(call.key_lengths),
                                     b * call.key_lengths.strides[0]);
  return std::clamp<int64_t>(length, 0, keys);
}

template <typename T>
typename TiledAttention<T>::Range TiledAttention<T>::SeenBy(int64_t b, int64_t t) const {
  const int64_t p = t + call.q_offset;
  Range r = {0, KeyCount(b)};
  if (call.causal) r.last = std::min(r.last, p + 1);
  if (call.window > 0) r.first = std::max(r.first, p - call.window + 1);
  return r;
}

template <typename T>
typename TiledAttention<T>::Range TiledAttention<T>::SeenByTile(int64_t b, int64_t t,
                                                                int64_t rows) const {
  Range r = {SeenBy(b, t).first, SeenBy(b, t + rows - 1).last};
  r.first = r.first / kTilePad * kTilePad;
  return r;
}

template <typename T>
void TiledAttention<T>::PackRows(const TensorRef& x, int64_t b, int64_t t, int64_t rows,
                                 int64_t head, T factor, T* to) const {
  const Dims& s = x.strides;
  const char* base = At(x);
  for (int64_t i = 0; i < rows; ++i) {
    T* row = to + i * dim_pad;
    LoadRow(x.type.dtype, base, b * s[0] + (t + i) * s[1] + head * s[2], s[3], dim, factor, row);
    std::fill(row + dim, row + dim_pad, T(0));
  }
}

template <typename T>
void TiledAttention<T>::PackTransposed(const AttentionTiles<T>& tiles, const TensorRef& x,
                                       int64_t b, int64_t group, Range range, int64_t ld, T* block,
                                       T* to) const {
  for (int64_t k = range.first; k < range.last; k += kTilePad) {
    const int64_t n = std::min(kTilePad, range.last - k);
    PackRows(x, b, k, n, group, T(1), block);
    std::fill(block + n * dim_pad, block + kTilePad * dim_pad, T(0));
    for (int64_t c = 0; c < dim_pad; c += kTilePad) {
      tiles.transpose(block + c, dim_pad, to + c * ld + (k - range.first), ld);
    }
  }
}

template <typename T>
void TiledAttention<T>::StoreRows(const TensorRef& x, int64_t b, int64_t t, int64_t rows,
                                  int64_t head, T factor, const T* from) const {
  const Dims& s = x.strides;
  for (int64_t i = 0; i < rows; ++i) {
    StoreRow(x.type.dtype, At(x), b * s[0] + (t + i) * s[1] + head * s[2], s[3], dim, factor,
             from + i * dim_pad);
  }
}

template <typename T>
T TiledAttention<T>::LoadRowStat(const TensorRef& x, int64_t b, int64_t h, int64_t t) const {
  const Dims& s = x.strides;
  return static_cast<T>(LoadNumber(x.type.dtype, At(x), b * s[0] + h * s[1] + t * s[2]));
}

template <typename T>
void TiledAttention<T>::StoreRowStat(const TensorRef& x, int64_t b, int64_t h, int64_t t,
                                     T v) const {
  const Dims& s = x.strides;
  StoreNumber(x.type.dtype, At(x), b * s[0] + h * s[1] + t * s[2], v);
}

template <typename T>
void TiledAttention<T>::Scores(const AttentionTiles<T>& tiles, int64_t b, int64_t h, int64_t t,
                               int64_t rows, Range tile, const T* q, const T* keys_t, int64_t ld,
                               T* scores) const {
  constexpr T kUnseen = -std::numeric_limits<T>::infinity();
  const int64_t columns = PadTile(tile.size());
  tiles.gemm(rows, columns, dim, q, dim_pad, 1, keys_t, ld, scores, kKeyTile, false);
  for (int64_t i = 0; i < rows; ++i) {
    T* row = scores + i * kKeyTile;
    const Range seen = SeenBy(b, t + i);
    const int64_t first = std::clamp<int64_t>(seen.first - tile.first, 0, columns);
    const int64_t last = std::clamp<int64_t>(seen.last - tile.first, first, columns);
    std::fill(row, row + first, kUnseen);
    std::fill(row + last, row + columns, kUnseen);
    if (call.bias) {
      const Dims &shape = call.bias.type.shape, &s = call.bias.strides;
      const int64_t at =
          (shape[0] == 1 ? 0 : b) * s[0] + (shape[1] == 1 ? 0 : h) * s[1] + (t + i) * s[2];
      for (int64_t j = first; j < last; ++j) {
        row[j] += static_cast<T>(
            LoadNumber(call.bias.type.dtype, At(call.bias), at + (tile.first + j) * s[3]));
      }
    }
    if (call.q_segments) {
      const TensorRef &qs = call.q_segments, &ks = call.k_segments;
      const int64_t mine =
          LoadInteger(qs.type.dtype, At(qs), b * qs.strides[0] + (t + i) * qs.strides[1]);
      for (int64_t j = first; j < last; ++j) {
        const int64_t at = b * ks.strides[0] + (tile.first + j) * ks.strides[1];
        if (LoadInteger(ks.type.dtype, At(ks), at) != mine) row[j] = kUnseen;
      }
    }
  }
}

template <typename T>
T* TiledAttention<T>::Kept(const AttentionTiles<T>& tiles, int64_t b, int64_t h, int64_t t,
                           int64_t first, int64_t n, T* space) const {
  const char* seed = At(call.seed);
  const unsigned key[2] = {LoadAs<uint32_t>(seed, 0), LoadAs<uint32_t>(seed, call.seed.strides[0])};
  const unsigned counter[2] = {static_cast<uint32_t>(call.stream),
                               static_cast<uint32_t>(LoadAs<int64_t>(At(call.step), 0))};
  const auto threshold = static_cast<uint32_t>(std::ldexp(call.dropout, 32));
  const int64_t element = ((b * heads + h) * queries + t) * keys + first, skip = element % 4;
  const int64_t blocks = ((skip + n + 3) / 4 + 7) / 8 * 8;
  tiles.kept(key, counter, static_cast<uint64_t>(element / 4), blocks, threshold,
             static_cast<T>(1 / (1 - call.dropout)), space);
  return space + skip;
}

template class TiledAttention<float>;
template class TiledAttention<double>;

}  // namespace stator
