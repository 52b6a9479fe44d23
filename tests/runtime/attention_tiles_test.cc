// Every instruction set's inner loops of attention that this machine has, against plain loops.
#include "runtime/cpu/attention_tiles.h"

#include "ir/philox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace stator {
namespace {

template <typename T>
std::vector<T> Random(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> out(n);
  for (T& v : out) v = static_cast<T>(static_cast<double>(random() >> 11) * 0x1p-52 - 1);
  return out;
}

template <typename T>
void CheckGemm(const AttentionTiles<T>& tiles, long m, long n, long k, bool transposed,
               bool accumulate) {
  const long lda = transposed ? m + 3 : k + 3, ldb = n + 16, ldc = n + 32;
  const auto a = Random<T>(static_cast<size_t>((transposed ? k : m) * lda), 1);
  const auto b = Random<T>(static_cast<size_t>(k * ldb), 2);
  auto c = Random<T>(static_cast<size_t>(m * ldc), 3);
  const auto before = c;
  const long row = transposed ? 1 : lda, column = transposed ? lda : 1;
  tiles.gemm(m, n, k, a.data(), row, column, b.data(), ldb, c.data(), ldc, accumulate);
  for (long i = 0; i < m; ++i) {
    for (long j = 0; j < ldc; ++j) {
      double expected = before[i * ldc + j];
      if (j < n) {
        if (!accumulate) expected = 0;
        for (long p = 0; p < k; ++p)
          expected += static_cast<double>(a[i * row + p * column]) * b[p * ldb + j];
      }
      ASSERT_NEAR(c[i * ldc + j], expected, 1e-5)
          << m << " " << n << " " << k << " at " << i << "," << j;
    }
  }
}

template <typename T>
void CheckRows(const AttentionTiles<T>& tiles) {
  const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  auto row = Random<T>(48, 4);
  for (size_t j = 0; j < 48; ++j) row[j] = row[j] * 20 - static_cast<T>(j);
  row[5] = -inf, row[17] = -80, row[30] = 3;
  EXPECT_EQ(tiles.row_max(row.data(), 48), *std::max_element(row.begin(), row.end()));
  auto e = row;
  const T sum = tiles.row_exp(e.data(), 48, T(3));
  double expected_sum = 0;
  for (size_t j = 0; j < 48; ++j) {
    const double expected = std::exp(static_cast<double>(T(row[j] - 3)));  // the shift rounds
    EXPECT_NEAR(e[j], expected, 1e-37 + expected * 3e-7) << row[j];
    expected_sum += expected;
  }
  EXPECT_NEAR(sum, expected_sum, expected_sum * 1e-6);
  EXPECT_EQ(e[5], T(0));

  auto special = std::vector<T>(16, T(0));
  special[0] = nan, special[1] = inf, special[2] = -inf, special[3] = -1e30f, special[4] = 88;
  tiles.row_exp(special.data(), 16, T(0));
  EXPECT_TRUE(std::isnan(special[0]));
  EXPECT_EQ(special[1], inf);
  EXPECT_EQ(special[2], T(0));
  EXPECT_EQ(special[3], T(0));
  EXPECT_NEAR(special[4] / 1.6516362549940018e38, 1, 1e-6);
  EXPECT_EQ(special[5], T(1));

  std::vector<T> s = Random<T>(32, 5), dp = Random<T>(32, 6), kept(32, T(2));
  kept[3] = 0;
  auto p = s, ds = dp;
  tiles.row_grad(p.data(), ds.data(), 32, T(0.5), T(0.25));
  for (size_t j = 0; j < 32; ++j) {
    EXPECT_NEAR(p[j], std::exp(s[j] - 0.5), 1e-6);
    EXPECT_NEAR(ds[j], std::exp(s[j] - 0.5) * (dp[j] - 0.25), 1e-6);
  }
  p = s, ds = dp;
  tiles.row_grad_dropout(p.data(), ds.data(), kept.data(), 32, T(0.5), T(0.25));
  for (size_t j = 0; j < 32; ++j) {
    EXPECT_NEAR(p[j], std::exp(s[j] - 0.5) * kept[j], 1e-6);
    EXPECT_NEAR(ds[j], std::exp(s[j] - 0.5) * (dp[j] * kept[j] - 0.25), 1e-6);
  }
  tiles.row_scale(s.data(), 16, T(2));
  const auto unscaled = Random<T>(32, 5);
  EXPECT_EQ(s[15], 2 * unscaled[15]);
  EXPECT_EQ(s[16], unscaled[16]);
}

template <typename T>
void CheckTiles(const AttentionTiles<T>& tiles) {
  for (const bool transposed : {false, true}) {
    for (const bool accumulate : {false, true}) {
      for (const long m : {1, 3, 4, 7, 8, 13, 32}) {
        for (const long n : {16, 32, 48, 80}) CheckGemm(tiles, m, n, 19, transposed, accumulate);
      }
    }
  }
  CheckGemm(tiles, 5, 16, 0, false, true);
  CheckRows(tiles);
  const unsigned key[2] = {0x12345678u, 0x9abcdef0u}, counter[2] = {7, 99};
  std::vector<T> kept(4 * 24 + 1, T(5));
  tiles.kept(key, counter, 0xfffffffau, 24, 0x60000000u, T(1.5), kept.data());
  for (size_t j = 0; j < 96; ++j) {
    const auto words =
        RandomBlock(key[0], key[1], 99, 7, 0xfffffffaL + static_cast<int64_t>(j / 4));
    EXPECT_EQ(kept[j], words[j % 4] >= 0x60000000u ? T(1.5) : T(0)) << j;
  }
  EXPECT_EQ(kept[96], T(5));
  const auto from = Random<T>(16 * 20, 8);
  std::vector<T> to(16 * 33, T(0));
  tiles.transpose(from.data(), 20, to.data(), 33);
  for (long i = 0; i < 16; ++i) {
    for (long j = 0; j < 16; ++j) EXPECT_EQ(to[j * 33 + i], from[i * 20 + j]);
  }
  EXPECT_EQ(to[16], T(0));
}

TEST(AttentionTiles, avx512) {
  if (Avx512Tiles() == nullptr) GTEST_SKIP() << "no AVX-512 on this machine";
  CheckTiles(*Avx512Tiles());
}

TEST(AttentionTiles, avx2) {
  if (Avx2Tiles() == nullptr) GTEST_SKIP() << "no AVX2 on this machine";
  CheckTiles(*Avx2Tiles());
}

TEST(AttentionTiles, portable) { CheckTiles(*PortableTiles()); }

TEST(AttentionTiles, portable_f64) { CheckTiles(*PortableTiles64()); }

}  // namespace
}  // namespace stator
