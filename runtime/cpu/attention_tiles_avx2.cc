// Attention's inner loops for AVX2 with FMA.
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
// GCC 12 warns of what its own headers leave undefined on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC target("avx2,fma")
#endif

#include "runtime/cpu/attention_tiles.h"
#include "runtime/cpu/attention_tiles_impl.h"

#include <immintrin.h>

namespace stator {
namespace {

struct Avx2 {
  using T = float;
  using R = __m256;
  static constexpr long kWidth = 8;
  static constexpr int kRows = 6;  // 6 rows of 2 vectors are 12 of the 16 registers

  static R Load(const T* p) { return _mm256_loadu_ps(p); }
  static void Store(T* p, R v) { _mm256_storeu_ps(p, v); }
  static R Set(T v) { return _mm256_set1_ps(v); }
  static R Add(R a, R b) { return _mm256_add_ps(a, b); }
  static R Sub(R a, R b) { return _mm256_sub_ps(a, b); }
  static R Mul(R a, R b) { return _mm256_mul_ps(a, b); }
  static R Fma(R a, R b, R c) { return _mm256_fmadd_ps(a, b, c); }
  static R Max(R a, R b) { return _mm256_max_ps(b, a); }
  static T Sum(R v) {
    float p[8];
    Store(p, v);
    return ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]));
  }
  static T Largest(R v) {
    float p[8];
    Store(p, v);
    float most = p[0];
    for (int i = 1; i < 8; ++i) most = p[i] > most ? p[i] : most;
    return most;
  }

  // As in attention_tiles_avx512.cc; 2^n is made in two halves, so that no exponent overflows.
  static R Exp(R x) {
    const R normal = _mm256_cmp_ps(x, Set(-87.3f), _CMP_NLT_UQ);
    x = _mm256_max_ps(Set(-87.3f), x);
    x = _mm256_min_ps(Set(89.0f), x);
    const R n = _mm256_round_ps(_mm256_mul_ps(x, Set(1.44269504088896341f)),
                                _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    R r = _mm256_fnmadd_ps(n, Set(0.693359375f), x);
    r = _mm256_fnmadd_ps(n, Set(-2.12194440e-4f), r);
    R y = Set(1.9875691500e-4f);
    y = Fma(y, r, Set(1.3981999507e-3f));
    y = Fma(y, r, Set(8.3334519073e-3f));
    y = Fma(y, r, Set(4.1665795894e-2f));
    y = Fma(y, r, Set(1.6666665459e-1f));
    y = Fma(y, r, Set(5.0000001201e-1f));
    y = Fma(y, _mm256_mul_ps(r, r), Add(r, Set(1.0f)));
    const __m256i i = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(i, 1);
    return _mm256_and_ps(Mul(Mul(y, Power(half)), Power(_mm256_sub_epi32(i, half))), normal);
  }

  // As in attention_tiles_avx512.cc, on four blocks.
  static void Kept(const unsigned* key, const unsigned* counter, unsigned long first, long blocks,
                   unsigned threshold, T factor, T* to) {
    const __m256i m0 = _mm256_set1_epi64x(0xD2511F53u), m1 = _mm256_set1_epi64x(0xCD9E8D57u);
    const __m256i low = _mm256_set1_epi64x(0xffffffffu), sign = _mm256_set1_epi32(-2147483647 - 1);
    const __m256i limit = _mm256_xor_si256(_mm256_set1_epi32(static_cast<int>(threshold)), sign);
    for (long i = 0; i < blocks; i += 4) {
      const __m256i block = _mm256_add_epi64(_mm256_set1_epi64x(static_cast<long long>(first) + i),
                                             _mm256_setr_epi64x(0, 1, 2, 3));
      __m256i c0 = block, c1 = _mm256_srli_epi64(block, 32);
      __m256i c2 = _mm256_set1_epi64x(counter[0]), c3 = _mm256_set1_epi64x(counter[1]);
      unsigned k0 = key[0], k1 = key[1];
      for (int round = 0; round < 10; ++round) {
        const __m256i p0 = _mm256_mul_epu32(c0, m0), p1 = _mm256_mul_epu32(c2, m1);
        c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), c1),
                              _mm256_set1_epi64x(k0));
        c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), c3),
                              _mm256_set1_epi64x(k1));
        c1 = p1, c3 = p0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
      }
      const __m256i w01 = _mm256_or_si256(_mm256_and_si256(c0, low), _mm256_slli_epi64(c1, 32));
      const __m256i w23 = _mm256_or_si256(_mm256_and_si256(c2, low), _mm256_slli_epi64(c3, 32));
      const __m256i even = _mm256_unpacklo_epi64(w01, w23), odd = _mm256_unpackhi_epi64(w01, w23);
      const __m256i pairs[2] = {_mm256_permute2x128_si256(even, odd, 0x20),
                                _mm256_permute2x128_si256(even, odd, 0x31)};
      for (int half = 0; half < 2; ++half) {
        const __m256i below = _mm256_cmpgt_epi32(limit, _mm256_xor_si256(pairs[half], sign));
        Store(to + 4 * i + 8 * half, _mm256_andnot_ps(_mm256_castsi256_ps(below), Set(factor)));
      }
    }
  }

  static void Transpose(const T* from, long from_ld, T* to, long to_ld) {
    // b[g][j]: in 128-bit lane l, column 4 l + j of rows 4 g .. 4 g + 3.
    R b[2][4];
#pragma GCC unroll 2
    for (int g = 0; g < 2; ++g) {
      const T* row = from + 4 * g * from_ld;
      const R r0 = Load(row), r1 = Load(row + from_ld);
      const R r2 = Load(row + 2 * from_ld), r3 = Load(row + 3 * from_ld);
      const __m256d low01 = _mm256_castps_pd(_mm256_unpacklo_ps(r0, r1));
      const __m256d high01 = _mm256_castps_pd(_mm256_unpackhi_ps(r0, r1));
      const __m256d low23 = _mm256_castps_pd(_mm256_unpacklo_ps(r2, r3));
      const __m256d high23 = _mm256_castps_pd(_mm256_unpackhi_ps(r2, r3));
      b[g][0] = _mm256_castpd_ps(_mm256_unpacklo_pd(low01, low23));
      b[g][1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low01, low23));
      b[g][2] = _mm256_castpd_ps(_mm256_unpacklo_pd(high01, high23));
      b[g][3] = _mm256_castpd_ps(_mm256_unpackhi_pd(high01, high23));
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      Store(to + j * to_ld, _mm256_permute2f128_ps(b[0][j], b[1][j], 0x20));
      Store(to + (j + 4) * to_ld, _mm256_permute2f128_ps(b[0][j], b[1][j], 0x31));
    }
  }

 private:
  static R Power(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
  }
};

}  // namespace

const AttentionTiles<float>* Avx2Tiles() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &Tiles<Avx2>::kTable
                                                                         : nullptr;
}

}  // namespace stator

#if defined(__clang__)
#pragma clang attribute pop
#endif
#else

#include "runtime/cpu/attention_tiles.h"

const stator::AttentionTiles<float>* stator::Avx2Tiles() { return nullptr; }

#endif
