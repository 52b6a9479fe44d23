// The inner loops of attention over packed tiles, once for each instruction set. The driver
// (attention.cc) packs, masks and orders; these only compute. No project or standard headers here:
// this is compiled for instruction sets that not every machine has, and an inline function of a
// header must not be taken from there.
#pragma once

namespace stator {

template <typename T>
struct AttentionTiles {
  int width;  // elements of a vector; column counts `n` below are multiples of it

  // c[m, n] = (c +) a[m, k] b[k, n]. a's strides are free; rows of b and c are contiguous.
  void (*gemm)(long m, long n, long k, const T* a, long a_row, long a_column, const T* b, long ldb,
               T* c, long ldc, bool accumulate);
  // to[j, i] = from[i, j] for 16 x 16 elements.
  void (*transpose)(const T* from, long from_ld, T* to, long to_ld);
  // The largest element, ignoring NaN unless all are NaN.
  T (*row_max)(const T* row, long n);
  // row = exp(row - shift); returns the sum.
  T (*row_exp)(T* row, long n, T shift);
  void (*row_scale)(T* row, long n, T factor);
  // to[j] = factor where word j % 4 of block first + j / 4 of the random stream (ir/philox.h; `key`
  // is the seed, `counter` stream and step) is at least `threshold`, else 0, for 4 * blocks
  // elements. `blocks` is a multiple of 8.
  void (*kept)(const unsigned* key, const unsigned* counter, unsigned long first, long blocks,
               unsigned threshold, T factor, T* to);
  // With p = exp(s - lse): s becomes p, dp becomes p * (dp - inner).
  void (*row_grad)(T* s, T* dp, long n, T lse, T inner);
  // The same with dropout: s becomes p * kept, dp becomes p * (dp * kept - inner).
  void (*row_grad_dropout)(T* s, T* dp, const T* kept, long n, T lse, T inner);
};

// Null where the build or the machine lacks the instructions.
const AttentionTiles<float>* Avx512Tiles();
const AttentionTiles<float>* Avx2Tiles();
const AttentionTiles<float>* PortableTiles();
const AttentionTiles<double>* PortableTiles64();

}  // namespace stator
