// Attention's inner loops for AVX-512.
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx2,fma"))), \
                             apply_to = function)
#else
// GCC 12 warns of what its own headers leave undefined on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC target("avx512f,avx512dq,avx2,fma")
#endif

#include "runtime/cpu/attention_tiles.h"
#include "runtime/cpu/attention_tiles_impl.h"

#include <immintrin.h>

namespace stator {
namespace {

struct Avx512 {
  using T = float;
  using R = __m512;
  static constexpr long kWidth = 16;
  static constexpr int kRows = 8;  // 8 rows of 2 vectors are 16 of the 32 registers

  static R Load(const T* p) { return _mm512_loadu_ps(p); }
  static void Store(T* p, R v) { _mm512_storeu_ps(p, v); }
  static R Set(T v) { return _mm512_set1_ps(v); }
  static R Add(R a, R b) { return _mm512_add_ps(a, b); }
  static R Sub(R a, R b) { return _mm512_sub_ps(a, b); }
  static R Mul(R a, R b) { return _mm512_mul_ps(a, b); }
  static R Fma(R a, R b, R c) { return _mm512_fmadd_ps(a, b, c); }
  static R Max(R a, R b) { return _mm512_max_ps(b, a); }
  static T Sum(R v) { return _mm512_reduce_add_ps(v); }
  static T Largest(R v) { return _mm512_reduce_max_ps(v); }

  // exp(x) = 2^n exp(r), n = round(x / ln 2), r in [-ln2/2, ln2/2] by a polynomial (Cephes' expf).
  // What would be denormal is 0: making it would cost more than all the rest. NaN stays NaN.
  static R Exp(R x) {
    const __mmask16 normal = _mm512_cmp_ps_mask(x, Set(-87.3f), _CMP_NLT_UQ);
    x = _mm512_max_ps(Set(-87.3f), x);  // of a NaN the second operand is taken
    x = _mm512_min_ps(Set(89.0f), x);
    const R n = _mm512_roundscale_ps(_mm512_mul_ps(x, Set(1.44269504088896341f)),
                                     _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    R r = _mm512_fnmadd_ps(n, Set(0.693359375f), x);
    r = _mm512_fnmadd_ps(n, Set(-2.12194440e-4f), r);
    R y = Set(1.9875691500e-4f);
    y = Fma(y, r, Set(1.3981999507e-3f));
    y = Fma(y, r, Set(8.3334519073e-3f));
    y = Fma(y, r, Set(4.1665795894e-2f));
    y = Fma(y, r, Set(1.6666665459e-1f));
    y = Fma(y, r, Set(5.0000001201e-1f));
    y = Fma(y, _mm512_mul_ps(r, r), Add(r, Set(1.0f)));
    return _mm512_maskz_scalef_ps(normal, y, n);
  }

  // Philox4x32-10 on eight blocks, each word in the low half of a 64-bit lane; what is in the high
  // halves does not matter.
  static void Kept(const unsigned* key, const unsigned* counter, unsigned long first, long blocks,
                   unsigned threshold, T factor, T* to) {
    const __m512i m0 = _mm512_set1_epi64(0xD2511F53u), m1 = _mm512_set1_epi64(0xCD9E8D57u);
    const __m512i low = _mm512_set1_epi64(0xffffffffu);
    const __m512i limit = _mm512_set1_epi32(static_cast<int>(threshold));
    const __m512i order0 = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    const __m512i order1 = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    for (long i = 0; i < blocks; i += 8) {
      const __m512i block = _mm512_add_epi64(_mm512_set1_epi64(static_cast<long long>(first) + i),
                                             _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
      __m512i c0 = block, c1 = _mm512_srli_epi64(block, 32);
      __m512i c2 = _mm512_set1_epi64(counter[0]), c3 = _mm512_set1_epi64(counter[1]);
      unsigned k0 = key[0], k1 = key[1];
      for (int round = 0; round < 10; ++round) {
        const __m512i p0 = _mm512_mul_epu32(c0, m0), p1 = _mm512_mul_epu32(c2, m1);
        c0 = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(p1, 32), c1),
                              _mm512_set1_epi64(k0));
        c2 = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(p0, 32), c3),
                              _mm512_set1_epi64(k1));
        c1 = p1, c3 = p0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
      }
      const __m512i w01 = _mm512_or_si512(_mm512_and_si512(c0, low), _mm512_slli_epi64(c1, 32));
      const __m512i w23 = _mm512_or_si512(_mm512_and_si512(c2, low), _mm512_slli_epi64(c3, 32));
      const __m512i words0 = _mm512_permutex2var_epi64(w01, order0, w23);
      const __m512i words1 = _mm512_permutex2var_epi64(w01, order1, w23);
      Store(to + 4 * i, _mm512_maskz_mov_ps(_mm512_cmpge_epu32_mask(words0, limit), Set(factor)));
      Store(to + 4 * i + 16,
            _mm512_maskz_mov_ps(_mm512_cmpge_epu32_mask(words1, limit), Set(factor)));
    }
  }

  static void Transpose(const T* from, long from_ld, T* to, long to_ld) {
    // b[g][j]: in 128-bit lane l, column 4 l + j of rows 4 g .. 4 g + 3.
    R b[4][4];
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
      const T* row = from + 4 * g * from_ld;
      const R r0 = Load(row), r1 = Load(row + from_ld);
      const R r2 = Load(row + 2 * from_ld), r3 = Load(row + 3 * from_ld);
      const __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(r0, r1));
      const __m512d high01 = _mm512_castps_pd(_mm512_unpackhi_ps(r0, r1));
      const __m512d low23 = _mm512_castps_pd(_mm512_unpacklo_ps(r2, r3));
      const __m512d high23 = _mm512_castps_pd(_mm512_unpackhi_ps(r2, r3));
      b[g][0] = _mm512_castpd_ps(_mm512_unpacklo_pd(low01, low23));
      b[g][1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low01, low23));
      b[g][2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high01, high23));
      b[g][3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high01, high23));
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const R x0 = _mm512_shuffle_f32x4(b[0][j], b[1][j], 0x44);
      const R x1 = _mm512_shuffle_f32x4(b[0][j], b[1][j], 0xee);
      const R x2 = _mm512_shuffle_f32x4(b[2][j], b[3][j], 0x44);
      const R x3 = _mm512_shuffle_f32x4(b[2][j], b[3][j], 0xee);
      Store(to + j * to_ld, _mm512_shuffle_f32x4(x0, x2, 0x88));
      Store(to + (j + 4) * to_ld, _mm512_shuffle_f32x4(x0, x2, 0xdd));
      Store(to + (j + 8) * to_ld, _mm512_shuffle_f32x4(x1, x3, 0x88));
      Store(to + (j + 12) * to_ld, _mm512_shuffle_f32x4(x1, x3, 0xdd));
    }
  }
};

}  // namespace

const AttentionTiles<float>* Avx512Tiles() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
             ? &Tiles<Avx512>::kTable
             : nullptr;
}

}  // namespace stator

#if defined(__clang__)
#pragma clang attribute pop
#endif
#else

#include "runtime/cpu/attention_tiles.h"

const stator::AttentionTiles<float>* stator::Avx512Tiles() { return nullptr; }

#endif
