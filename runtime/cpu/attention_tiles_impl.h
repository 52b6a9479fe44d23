// AttentionTiles for a vector type V:
//   V::T, V::R (register), V::kWidth, Load, Store, Set, Add, Sub, Mul, Fma(a, b, c) = a*b + c,
//   Max, Exp (0 where the result would be denormal), Sum, Largest, and
//   Transpose(from, from_ld, to, to_ld) of kWidth x kWidth elements, Kept as in the table.
// Included by one file an instruction set, after the target is set.
#pragma once

// Sums must be registers, so the loops over them may not stay loops; clang unrolls them by itself.
#if defined(__clang__)
#define STATOR_UNROLL
#else
#define STATOR_UNROLL _Pragma("GCC unroll 16")
#endif

namespace stator {
namespace {

template <class V>
struct Tiles {
  using T = typename V::T;
  using R = typename V::R;
  static constexpr long kW = V::kWidth;

  // Rows x Vectors sums stay in registers over the whole depth.
  template <int kRows, int kVectors>
  static inline __attribute__((always_inline)) void Block(long k, const T* a, long a_row,
                                                          long a_column, const T* b, long ldb, T* c,
                                                          long ldc, bool accumulate) {
    R sum[kRows][kVectors];
    STATOR_UNROLL
    for (int i = 0; i < kRows; ++i) {
      STATOR_UNROLL
      for (int j = 0; j < kVectors; ++j) {
        sum[i][j] = accumulate ? V::Load(c + i * ldc + j * kW) : V::Set(T(0));
      }
    }
    for (long p = 0; p < k; ++p) {
      R right[kVectors];
      STATOR_UNROLL
      for (int j = 0; j < kVectors; ++j) right[j] = V::Load(b + p * ldb + j * kW);
      STATOR_UNROLL
      for (int i = 0; i < kRows; ++i) {
        const R left = V::Set(a[i * a_row + p * a_column]);
        STATOR_UNROLL
        for (int j = 0; j < kVectors; ++j) sum[i][j] = V::Fma(left, right[j], sum[i][j]);
      }
    }
    STATOR_UNROLL
    for (int i = 0; i < kRows; ++i) {
      STATOR_UNROLL
      for (int j = 0; j < kVectors; ++j) V::Store(c + i * ldc + j * kW, sum[i][j]);
    }
  }

  template <int kVectors>
  static inline __attribute__((always_inline)) void Columns(long m, long k, const T* a, long a_row,
                                                            long a_column, const T* b, long ldb,
                                                            T* c, long ldc, bool accumulate) {
    long i = 0;
    for (; i + V::kRows <= m; i += V::kRows) {
      Block<V::kRows, kVectors>(k, a + i * a_row, a_row, a_column, b, ldb, c + i * ldc, ldc,
                                accumulate);
    }
    for (; i + 4 <= m; i += 4) {
      Block<4, kVectors>(k, a + i * a_row, a_row, a_column, b, ldb, c + i * ldc, ldc, accumulate);
    }
    for (; i < m; ++i) {
      Block<1, kVectors>(k, a + i * a_row, a_row, a_column, b, ldb, c + i * ldc, ldc, accumulate);
    }
  }

  static void Gemm(long m, long n, long k, const T* a, long a_row, long a_column, const T* b,
                   long ldb, T* c, long ldc, bool accumulate) {
    long j = 0;
    for (; j + 2 * kW <= n; j += 2 * kW) {
      Columns<2>(m, k, a, a_row, a_column, b + j, ldb, c + j, ldc, accumulate);
    }
    for (; j < n; j += kW) Columns<1>(m, k, a, a_row, a_column, b + j, ldb, c + j, ldc, accumulate);
  }

  static void Transpose(const T* from, long from_ld, T* to, long to_ld) {
    for (long i = 0; i < 16; i += kW) {
      for (long j = 0; j < 16; j += kW) {
        V::Transpose(from + i * from_ld + j, from_ld, to + j * to_ld + i, to_ld);
      }
    }
  }

  static T RowMax(const T* row, long n) {
    R most = V::Load(row);
    for (long j = kW; j < n; j += kW) most = V::Max(most, V::Load(row + j));
    return V::Largest(most);
  }

  static T RowExp(T* row, long n, T shift) {
    const R s = V::Set(shift);
    R sum = V::Set(T(0));
    for (long j = 0; j < n; j += kW) {
      const R e = V::Exp(V::Sub(V::Load(row + j), s));
      V::Store(row + j, e);
      sum = V::Add(sum, e);
    }
    return V::Sum(sum);
  }

  static void RowScale(T* row, long n, T factor) {
    const R f = V::Set(factor);
    for (long j = 0; j < n; j += kW) V::Store(row + j, V::Mul(V::Load(row + j), f));
  }

  static void RowGrad(T* s, T* dp, long n, T lse, T inner) {
    const R l = V::Set(lse), in = V::Set(inner);
    for (long j = 0; j < n; j += kW) {
      const R p = V::Exp(V::Sub(V::Load(s + j), l));
      V::Store(s + j, p);
      V::Store(dp + j, V::Mul(p, V::Sub(V::Load(dp + j), in)));
    }
  }

  static void RowGradDropout(T* s, T* dp, const T* kept, long n, T lse, T inner) {
    const R l = V::Set(lse), in = V::Set(inner);
    for (long j = 0; j < n; j += kW) {
      const R p = V::Exp(V::Sub(V::Load(s + j), l)), keep = V::Load(kept + j);
      V::Store(s + j, V::Mul(p, keep));
      V::Store(dp + j, V::Mul(p, V::Sub(V::Mul(V::Load(dp + j), keep), in)));
    }
  }

  static constexpr AttentionTiles<T> kTable = {
      static_cast<int>(kW), Gemm, Transpose, RowMax, RowExp, RowScale, V::Kept, RowGrad,
      RowGradDropout};
};

}  // namespace
}  // namespace stator

#undef STATOR_UNROLL
