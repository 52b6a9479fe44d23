#include "frontend/driver/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace stator {
namespace {

std::vector<char> SomeBytes(size_t n) {
  std::vector<char> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<char>(i * i * 31 + i / 7);
  return bytes;
}

TEST(Checksum, does_not_depend_on_how_the_bytes_are_cut) {
  const std::vector<char> bytes = SomeBytes((3 << 20) + 3);
  const uint32_t whole = ChecksumOf(bytes);
  for (const size_t piece : {1, 3, 1000, 4096, 65536}) {
    Checksum sum;
    std::vector<size_t> starts;
    for (size_t at = 0; at < bytes.size(); at += piece) starts.push_back(at);
    std::reverse(starts.begin(), starts.end());
    for (const size_t at : starts) {
      sum.Add(static_cast<int64_t>(at),
              std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
    }
    EXPECT_EQ(sum.value(), whole) << piece;
  }
}

TEST(Checksum, sees_flipped_bits_and_swapped_words) {
  std::vector<char> bytes = SomeBytes(10001);
  const uint32_t whole = ChecksumOf(bytes);
  for (size_t bit = 0; bit < 8 * bytes.size(); bit += 7) {
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_NE(ChecksumOf(bytes), whole) << bit;
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
  }
  std::swap_ranges(bytes.begin(), bytes.begin() + 4096, bytes.begin() + 4096);
  EXPECT_NE(ChecksumOf(bytes), whole);
}

// Python says so: zlib.crc32(b"123456789").
TEST(Checksum, is_zlibs_crc32) {
  EXPECT_EQ(ChecksumOf({}), 0u);
  const std::string digits = "123456789";
  EXPECT_EQ(ChecksumText(ChecksumOf(std::span(digits.data(), digits.size()))), "cbf43926");
}

}  // namespace
}  // namespace stator
