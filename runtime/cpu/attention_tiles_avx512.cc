// Attention's inner loops for AVX-512.
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx2,fma"))), apply_to = function)
#else
// GCC 12 warns of what its own headers leave undefined on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC target("avx512f,avx512dq,avx2,fma")
#endif

#include <immintrin.h>

#include "runtime/cpu/attention_tiles.h"
#include "runtime/cpu/attention_tiles_impl.h"

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

  // exp(x) = 2^n exp(r), n = round(x / ln 2), r in [-ln2/2, ln2/2] by a polynomial (Cephes' expf);
  // below -104 the result is 0. NaN stays NaN.
  static R Exp(R x) {
    x = _mm512_max_ps(Set(-104.0f), x);  // of a NaN the second operand is taken
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
    return _mm512_scalef_ps(y, n);
  }
};

}  // namespace

const AttentionTiles<float>* Avx512Tiles() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") ? &Tiles<Avx512>::kTable
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
