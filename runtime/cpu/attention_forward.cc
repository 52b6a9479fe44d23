// Attention forward by tiles with a running maximum and sum (Dao et al., FlashAttention, 2022): no
// more than a tile of scores exists at a time. Rows of the result do not depend on the number of
// threads.
#include "runtime/cpu/library_steps.h"
#include "runtime/cpu/tiled_attention.h"

#include <omp.h>

#include <cmath>

namespace stator {
namespace {

template <typename T>
struct ForwardSpace {
  T *keys_t, *values;       // [D, S], [S, D] of one key head, padded
  T *q, *out, *scores;      // [tile, D], [tile, D], [tile, keys of a tile]
  T *largest, *sum, *kept;  // a row each; see Kept

  ForwardSpace(Pieces<T>& p, int64_t dim_pad, int64_t keys_pad)
      : keys_t(p.Take(dim_pad * keys_pad)),
        values(p.Take(keys_pad * dim_pad)),
        q(p.Take(kQueryTile * dim_pad)),
        out(p.Take(kQueryTile * dim_pad)),
        scores(p.Take(kQueryTile * kKeyTile)),
        largest(p.Take(kQueryTile)),
        sum(p.Take(kQueryTile)),
        kept(p.Take(kKeptSpace)) {}
};

template <typename T>
class Forward {
 public:
  Forward(const TiledAttention<T>& problem, const AttentionTiles<T>& tiles, ForwardSpace<T> space)
      : p_(problem), tiles_(tiles), s_(space) {}

  void LoadKeys(int64_t b, int64_t group) {
    const int64_t n = p_.KeyCount(b);
    p_.PackTransposed(tiles_, p_.call.k, b, group, {0, n}, p_.keys_pad, s_.q, s_.keys_t);
    p_.PackRows(p_.call.v, b, 0, n, group, T(1), s_.values);
    std::fill(s_.values + n * p_.dim_pad, s_.values + PadTile(n) * p_.dim_pad, T(0));
    finite_ = AllFinite(s_.values, n * p_.dim_pad);
  }

  void QueryTile(int64_t b, int64_t h, int64_t t) {
    const int64_t rows = std::min(kQueryTile, p_.queries - t);
    p_.PackRows(p_.call.q, b, t, rows, h, static_cast<T>(p_.call.scale), s_.q);
    std::fill(s_.out, s_.out + rows * p_.dim_pad, T(0));
    std::fill(s_.largest, s_.largest + rows, kUnseen);
    std::fill(s_.sum, s_.sum + rows, T(0));
    const auto seen = p_.SeenByTile(b, t, rows);
    for (int64_t k = seen.first; k < seen.last; k += kKeyTile) {
      KeyTile(b, h, t, rows, {k, std::min(k + kKeyTile, seen.last)});
    }
    Finish(b, h, t, rows);
  }

 private:
  static constexpr T kUnseen = -std::numeric_limits<T>::infinity();

  void KeyTile(int64_t b, int64_t h, int64_t t, int64_t rows,
               typename TiledAttention<T>::Range tile) {
    const int64_t columns = PadTile(tile.size());
    p_.Scores(tiles_, b, h, t, rows, tile, s_.q, s_.keys_t + tile.first, p_.keys_pad, s_.scores);
    for (int64_t i = 0; i < rows; ++i) {
      T* row = s_.scores + i * kKeyTile;
      const T before = s_.largest[i], here = tiles_.row_max(row, columns);
      const T largest = here <= before ? before : here;
      const T shift = largest == kUnseen ? T(0) : largest;
      const T here_sum = tiles_.row_exp(row, columns, shift);
      if (before != kUnseen && before != largest) {
        const T shrink = std::exp(before - shift);
        s_.sum[i] *= shrink;
        tiles_.row_scale(s_.out + i * p_.dim_pad, p_.dim_pad, shrink);
      }
      s_.sum[i] += here_sum;
      s_.largest[i] = largest;
      if (p_.call.dropout > 0) {
        const T* kept = p_.Kept(tiles_, b, h, t + i, tile.first, tile.size(), s_.kept);
#pragma omp simd
        for (int64_t j = 0; j < tile.size(); ++j) row[j] *= kept[j];
      }
    }
    const T* values = s_.values + tile.first * p_.dim_pad;
    if (finite_) {
      tiles_.gemm(rows, p_.dim_pad, columns, s_.scores, kKeyTile, 1, values, p_.dim_pad, s_.out,
                  p_.dim_pad, true);
    } else {
      AddWithoutZeros(rows, p_.dim_pad, columns, s_.scores, kKeyTile, 1, values, p_.dim_pad, s_.out,
                      p_.dim_pad);
    }
  }

  void Finish(int64_t b, int64_t h, int64_t t, int64_t rows) {
    for (int64_t i = 0; i < rows; ++i) {
      const T sum = s_.sum[i];
      tiles_.row_scale(s_.out + i * p_.dim_pad, p_.dim_pad, sum == 0 ? T(0) : 1 / sum);
      if (p_.call.lse) {
        const T shift = s_.largest[i] == kUnseen ? T(0) : s_.largest[i];
        p_.StoreRowStat(p_.call.lse, b, h, t + i, std::log(sum) + shift);
      }
    }
    p_.StoreRows(p_.call.out, b, t, rows, h, T(1), s_.out);
  }

  const TiledAttention<T>& p_;
  const AttentionTiles<T>& tiles_;
  const ForwardSpace<T> s_;
  bool finite_ = true;  // every value of the key head: see AddWithoutZeros
};

}  // namespace

template <typename T>
int64_t AttentionForward<T>::ThreadBytes(const AttentionCall& call) {
  Pieces<T> pieces(nullptr);
  ForwardSpace<T>(pieces, PadTile(call.q.type.dim(3)), PadTile(call.k.type.dim(1)));
  return pieces.bytes();
}

template <typename T>
void AttentionForward<T>::Run(const AttentionCall& call, const CpuMemory& memory,
                              const CpuScratch& scratch) {
  const TiledAttention<T> problem(call, memory);
  const AttentionTiles<T>& tiles = BestTiles<T>();
  const int64_t pairs = problem.batch * problem.groups;
  if (pairs == 0 || problem.queries == 0) return;
  // Few key heads are shared out by query tiles.
  const int64_t parts = std::max<int64_t>(1, (scratch.threads() + pairs - 1) / pairs);
  const int64_t per_group = problem.heads / problem.groups;
#pragma omp parallel for schedule(dynamic) num_threads(scratch.threads())
  for (int64_t item = 0; item < pairs * parts; ++item) {
    Pieces<T> pieces(scratch.ForThread(omp_get_thread_num()));
    Forward<T> forward(problem, tiles, {pieces, problem.dim_pad, problem.keys_pad});
    const int64_t part = item % parts, group = item / parts % problem.groups;
    const int64_t b = item / parts / problem.groups;
    forward.LoadKeys(b, group);
    for (int64_t h = group * per_group; h < (group + 1) * per_group; ++h) {
      for (int64_t t = part * kQueryTile; t < problem.queries; t += parts * kQueryTile) {
        forward.QueryTile(b, h, t);
      }
    }
  }
}

template struct AttentionForward<float>;
template struct AttentionForward<double>;

}  // namespace stator
