// Attention backward by tiles: scores are computed again, never stored. With P = exp(s - lse),
// P' = P with dropout and dP = dropout of (dout v^T):
//   dS = P (dP - rowsum(dout out) + dlse), dq = scale dS k, dk = scale dS^T q, dv = P'^T dout.
// One thread owns a key head: its dk and dv are sums over query heads and tiles in a fixed order.
#include "runtime/cpu/library_steps.h"
#include "runtime/cpu/tiled_attention.h"

#include <omp.h>

#include <cmath>

namespace stator {
namespace {

template <typename T>
struct BackwardSpace {
  T *keys_t, *values_t, *keys;  // [D, S], [D, S], [S, D] of one key head, padded
  T *dk, *dv;                   // [S, D]
  T *q, *dout, *out, *dq;       // [tile, D]; q times scale
  T *scores, *dscores, *kept;   // [tile, keys of a tile] twice; see Kept
  T *lse, *inner;               // a row each

  BackwardSpace(Pieces<T>& p, int64_t dim_pad, int64_t keys_pad)
      : keys_t(p.Take(dim_pad * keys_pad)),
        values_t(p.Take(dim_pad * keys_pad)),
        keys(p.Take(keys_pad * dim_pad)),
        dk(p.Take(keys_pad * dim_pad)),
        dv(p.Take(keys_pad * dim_pad)),
        q(p.Take(kQueryTile * dim_pad)),
        dout(p.Take(kQueryTile * dim_pad)),
        out(p.Take(kQueryTile * dim_pad)),
        dq(p.Take(kQueryTile * dim_pad)),
        scores(p.Take(kQueryTile * kKeyTile)),
        dscores(p.Take(kQueryTile * kKeyTile)),
        kept(p.Take(kKeptSpace)),
        lse(p.Take(kQueryTile)),
        inner(p.Take(kQueryTile)) {}
};

template <typename T>
class Backward {
 public:
  using Range = typename TiledAttention<T>::Range;

  Backward(const TiledAttention<T>& problem, const AttentionTiles<T>& tiles, BackwardSpace<T> space)
      : p_(problem), tiles_(tiles), s_(space) {}

  void KeyHead(int64_t b, int64_t group) {
    const int64_t n = p_.KeyCount(b), per_group = p_.heads / p_.groups;
    p_.PackTransposed(tiles_, p_.call.k, b, group, {0, n}, p_.keys_pad, s_.q, s_.keys_t);
    p_.PackTransposed(tiles_, p_.call.v, b, group, {0, n}, p_.keys_pad, s_.q, s_.values_t);
    p_.PackRows(p_.call.k, b, 0, n, group, T(1), s_.keys);
    std::fill(s_.keys + n * p_.dim_pad, s_.keys + PadTile(n) * p_.dim_pad, T(0));
    finite_keys_ = AllFinite(s_.keys, n * p_.dim_pad);
    finite_keys_ &= FiniteColumns(s_.values_t, p_.keys_pad, n);
    std::fill(s_.dk, s_.dk + p_.keys * p_.dim_pad, T(0));
    std::fill(s_.dv, s_.dv + p_.keys * p_.dim_pad, T(0));
    for (int64_t h = group * per_group; h < (group + 1) * per_group; ++h) {
      for (int64_t t = 0; t < p_.queries; t += kQueryTile) QueryTile(b, h, t);
    }
    if (p_.call.dk) p_.StoreRows(p_.call.dk, b, 0, p_.keys, group, T(1), s_.dk);
    if (p_.call.dv) p_.StoreRows(p_.call.dv, b, 0, p_.keys, group, T(1), s_.dv);
  }

  // The bias's gradient for queries [t, t + tile) of one of its heads: scores once more, since
  // several heads or batch entries may share it and each sum has one owner.
  void BiasTile(int64_t bias_b, int64_t bias_h, int64_t t) {
    const TensorRef& dbias = p_.call.dbias;
    const Dims &shape = dbias.type.shape, &st = dbias.strides;
    const int64_t rows = std::min(kQueryTile, p_.queries - t);
    T* sum = s_.dk;  // [tile, keys of a tile]
    for (int64_t k = 0; k < p_.keys; k += kKeyTile) {
      const Range tile = {k, std::min(k + kKeyTile, p_.keys)};
      std::fill(sum, sum + kQueryTile * kKeyTile, T(0));
      for (int64_t b = shape[0] == 1 ? 0 : bias_b; b < (shape[0] == 1 ? p_.batch : bias_b + 1);
           ++b) {
        for (int64_t h = shape[1] == 1 ? 0 : bias_h; h < (shape[1] == 1 ? p_.heads : bias_h + 1);
             ++h) {
          AddBiasGrad(b, h, t, rows, tile, sum);
        }
      }
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < tile.size(); ++j) {
          const int64_t at = bias_b * st[0] + bias_h * st[1] + (t + i) * st[2] + (k + j) * st[3];
          StoreNumber(dbias.type.dtype, p_.At(dbias), at, sum[i * kKeyTile + j]);
        }
      }
    }
  }

 private:
  static constexpr T kUnseen = -std::numeric_limits<T>::infinity();

  void LoadQueries(int64_t b, int64_t h, int64_t t, int64_t rows) {
    p_.PackRows(p_.call.q, b, t, rows, h, static_cast<T>(p_.call.scale), s_.q);
    p_.PackRows(p_.call.dout, b, t, rows, h, T(1), s_.dout);
    p_.PackRows(p_.call.out, b, t, rows, h, T(1), s_.out);
    for (int64_t i = 0; i < rows; ++i) {
      const T lse = p_.LoadRowStat(p_.call.lse, b, h, t + i);
      s_.lse[i] = lse == -std::numeric_limits<T>::infinity() ? T(0) : lse;
      const T *x = s_.dout + i * p_.dim_pad, *y = s_.out + i * p_.dim_pad;
      T lanes[kTilePad] = {};
      for (int64_t c = 0; c < p_.dim_pad; c += kTilePad) {
        for (int64_t j = 0; j < kTilePad; ++j) lanes[j] += x[c + j] * y[c + j];
      }
      T inner = 0;
      for (const T lane : lanes) inner += lane;
      s_.inner[i] = p_.call.dlse ? inner - p_.LoadRowStat(p_.call.dlse, b, h, t + i) : inner;
    }
    // Infinities and NaN of dout and out are in their inner product too.
    finite_queries_ =
        AllFinite(s_.q, rows * p_.dim_pad) && AllFinite(s_.lse, rows) && AllFinite(s_.inner, rows);
  }

  // scores: P' and dscores: dS of a tile, from keys and values transposed from tile.first on.
  void Gradients(int64_t b, int64_t h, int64_t t, int64_t rows, Range tile, const T* keys_t,
                 const T* values_t, int64_t ld) {
    const int64_t columns = PadTile(tile.size());
    p_.Scores(tiles_, b, h, t, rows, tile, s_.q, keys_t, ld, s_.scores);
    tiles_.gemm(rows, columns, p_.dim, s_.dout, p_.dim_pad, 1, values_t, ld, s_.dscores, kKeyTile,
                false);
    const bool clear = !finite();  // what masks keep apart
    bool unseen[kKeyTile] = {};
    for (int64_t i = 0; i < rows; ++i) {
      T *s = s_.scores + i * kKeyTile, *d = s_.dscores + i * kKeyTile;
      if (clear) {
        for (int64_t j = 0; j < columns; ++j) unseen[j] = s[j] == kUnseen;
      }
      if (p_.call.dropout > 0) {
        const T* kept = p_.Kept(tiles_, b, h, t + i, tile.first, columns, s_.kept);
        tiles_.row_grad_dropout(s, d, kept, columns, s_.lse[i], s_.inner[i]);
      } else {
        tiles_.row_grad(s, d, columns, s_.lse[i], s_.inner[i]);
      }
      if (!clear) continue;
      for (int64_t j = 0; j < columns; ++j) {
        if (unseen[j]) s[j] = d[j] = 0;
      }
    }
  }

  bool FiniteColumns(const T* x, int64_t ld, int64_t n) const {
    for (int64_t c = 0; c < p_.dim; ++c) {
      if (!AllFinite(x + c * ld, n)) return false;
    }
    return true;
  }

  bool finite() const { return finite_keys_ && finite_queries_; }

  // c += a b, from operands of which those that masks keep apart do not meet.
  void AddProduct(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row, int64_t a_column,
                  const T* b, int64_t ldb, T* c, int64_t ldc) const {
    if (finite()) {
      tiles_.gemm(m, n, k, a, a_row, a_column, b, ldb, c, ldc, true);
    } else {
      AddWithoutZeros(m, n, k, a, a_row, a_column, b, ldb, c, ldc);
    }
  }

  void QueryTile(int64_t b, int64_t h, int64_t t) {
    const int64_t rows = std::min(kQueryTile, p_.queries - t), dp = p_.dim_pad;
    LoadQueries(b, h, t, rows);
    std::fill(s_.dq, s_.dq + rows * dp, T(0));
    const Range seen = p_.SeenByTile(b, t, rows);
    for (int64_t k = seen.first; k < seen.last; k += kKeyTile) {
      const Range tile = {k, std::min(k + kKeyTile, seen.last)};
      Gradients(b, h, t, rows, tile, s_.keys_t + k, s_.values_t + k, p_.keys_pad);
      AddProduct(rows, dp, PadTile(tile.size()), s_.dscores, kKeyTile, 1, s_.keys + k * dp, dp,
                 s_.dq, dp);
      AddProduct(tile.size(), dp, rows, s_.dscores, 1, kKeyTile, s_.q, dp, s_.dk + k * dp, dp);
      AddProduct(tile.size(), dp, rows, s_.scores, 1, kKeyTile, s_.dout, dp, s_.dv + k * dp, dp);
    }
    if (p_.call.dq) p_.StoreRows(p_.call.dq, b, t, rows, h, static_cast<T>(p_.call.scale), s_.dq);
  }

  void AddBiasGrad(int64_t b, int64_t h, int64_t t, int64_t rows, Range tile, T* sum) {
    const Range there = {tile.first, std::min(tile.last, p_.KeyCount(b))};
    if (there.size() == 0) return;
    const int64_t group = p_.GroupOf(h);
    p_.PackTransposed(tiles_, p_.call.k, b, group, there, kKeyTile, s_.q, s_.keys_t);
    p_.PackTransposed(tiles_, p_.call.v, b, group, there, kKeyTile, s_.q, s_.values_t);
    finite_keys_ = FiniteColumns(s_.values_t, kKeyTile, there.size());
    LoadQueries(b, h, t, rows);
    Gradients(b, h, t, rows, there, s_.keys_t, s_.values_t, kKeyTile);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < there.size(); ++j)
        sum[i * kKeyTile + j] += s_.dscores[i * kKeyTile + j];
    }
  }

  const TiledAttention<T>& p_;
  const AttentionTiles<T>& tiles_;
  const BackwardSpace<T> s_;
  bool finite_keys_ = true, finite_queries_ = true;  // what was loaded: see AddWithoutZeros
};

// Rows of keys that the scratch holds; the bias's gradient uses it for tiles of its own.
int64_t ScratchKeys(const AttentionCall& call) {
  const int64_t keys = PadTile(call.k.type.dim(1));
  return call.dbias ? std::max(keys, std::max(kKeyTile, kQueryTile * kKeyTile / kTilePad)) : keys;
}

}  // namespace

template <typename T>
int64_t AttentionBackward<T>::ThreadBytes(const AttentionCall& call) {
  Pieces<T> pieces(nullptr);
  BackwardSpace<T>(pieces, PadTile(call.q.type.dim(3)), ScratchKeys(call));
  return pieces.bytes();
}

template <typename T>
void AttentionBackward<T>::Run(const AttentionCall& call, const CpuMemory& memory,
                               const CpuScratch& scratch) {
  const TiledAttention<T> problem(call, memory);
  const AttentionTiles<T>& tiles = BestTiles<T>();
  const auto for_each = [&](int64_t items, const auto& f) {
#pragma omp parallel for schedule(dynamic) num_threads(scratch.threads())
    for (int64_t item = 0; item < items; ++item) {
      Pieces<T> pieces(scratch.ForThread(omp_get_thread_num()));
      Backward<T> backward(problem, tiles, {pieces, problem.dim_pad, ScratchKeys(call)});
      f(backward, item);
    }
  };
  for_each(problem.batch * problem.groups, [&](Backward<T>& backward, int64_t item) {
    backward.KeyHead(item / problem.groups, item % problem.groups);
  });
  if (!call.dbias) return;
  const int64_t tiles_down = (problem.queries + kQueryTile - 1) / kQueryTile;
  const Dims& shape = call.dbias.type.shape;
  for_each(shape[0] * shape[1] * tiles_down, [&](Backward<T>& backward, int64_t item) {
    const int64_t row = item / tiles_down;
    backward.BiasTile(row / shape[1], row % shape[1], item % tiles_down * kQueryTile);
  });
}

template struct AttentionBackward<float>;
template struct AttentionBackward<double>;

ScratchNeed AttentionScratch(const AttentionCall& call) {
  if (IsWide(call)) {
    return {0, call.backward ? AttentionBackward<double>::ThreadBytes(call)
                             : AttentionForward<double>::ThreadBytes(call)};
  }
  return {0, call.backward ? AttentionBackward<float>::ThreadBytes(call)
                           : AttentionForward<float>::ThreadBytes(call)};
}

void RunAttention(const AttentionCall& call, const CpuMemory& memory, const CpuScratch& scratch) {
  if (IsWide(call)) {
    if (call.backward) return AttentionBackward<double>::Run(call, memory, scratch);
    return AttentionForward<double>::Run(call, memory, scratch);
  }
  if (call.backward) return AttentionBackward<float>::Run(call, memory, scratch);
  AttentionForward<float>::Run(call, memory, scratch);
}

}  // namespace stator
