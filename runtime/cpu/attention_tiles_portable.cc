// Attention's inner loops without instructions of a particular machine, in f32 and f64.
#include "ir/philox.h"
#include "runtime/cpu/attention_tiles.h"
#include "runtime/cpu/attention_tiles_impl.h"

#include <cmath>

namespace stator {
namespace {

template <typename Number>
struct Portable {
  using T = Number;
  static constexpr long kWidth = 8;
  static constexpr int kRows = 4;
  struct R {
    T v[kWidth];
  };

  template <typename F>
  static R Each(const F& f) {
    R out;
    for (int i = 0; i < kWidth; ++i) out.v[i] = f(i);
    return out;
  }
  static R Load(const T* p) {
    return Each([&](int i) { return p[i]; });
  }
  static void Store(T* p, const R& r) {
    for (int i = 0; i < kWidth; ++i) p[i] = r.v[i];
  }
  static R Set(T v) {
    return Each([&](int) { return v; });
  }
  static R Add(const R& a, const R& b) {
    return Each([&](int i) { return a.v[i] + b.v[i]; });
  }
  static R Sub(const R& a, const R& b) {
    return Each([&](int i) { return a.v[i] - b.v[i]; });
  }
  static R Mul(const R& a, const R& b) {
    return Each([&](int i) { return a.v[i] * b.v[i]; });
  }
  static R Fma(const R& a, const R& b, const R& c) {
    return Each([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
  }
  static R Max(const R& a, const R& b) {
    return Each([&](int i) { return b.v[i] > a.v[i] || a.v[i] != a.v[i] ? b.v[i] : a.v[i]; });
  }
  static R Exp(const R& x) {
    return Each([&](int i) { return std::exp(x.v[i]); });
  }
  static void Kept(const unsigned* key, const unsigned* counter, unsigned long first, long blocks,
                   unsigned threshold, T factor, T* to) {
    for (long i = 0; i < blocks; ++i) {
      const PhiloxBlock words =
          RandomBlock(key[0], key[1], counter[1], counter[0], static_cast<int64_t>(first) + i);
      for (int w = 0; w < 4; ++w) to[4 * i + w] = words[w] >= threshold ? factor : T(0);
    }
  }
  static void Transpose(const T* from, long from_ld, T* to, long to_ld) {
    for (long i = 0; i < kWidth; ++i) {
      for (long j = 0; j < kWidth; ++j) to[j * to_ld + i] = from[i * from_ld + j];
    }
  }
  static T Sum(const R& r) {
    return ((r.v[0] + r.v[4]) + (r.v[2] + r.v[6])) + ((r.v[1] + r.v[5]) + (r.v[3] + r.v[7]));
  }
  static T Largest(const R& r) {
    T most = r.v[0];
    for (int i = 1; i < kWidth; ++i) most = r.v[i] > most ? r.v[i] : most;
    return most;
  }
};

}  // namespace

const AttentionTiles<float>* PortableTiles() { return &Tiles<Portable<float>>::kTable; }
const AttentionTiles<double>* PortableTiles64() { return &Tiles<Portable<double>>::kTable; }

}  // namespace stator
