#include "frontend/driver/checksum.h"

#include "ir/base/parallel.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace stator {
namespace {

constexpr int64_t kBlock = 1024;  // words
constexpr int64_t kPiece = int64_t{1} << 20;

// SplitMix64's output function (Steele, Lea, Flood 2014), made odd.
constexpr uint64_t Odd(uint64_t n) {
  n = (n + 1) * 0x9e3779b97f4a7c15ull;
  n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9ull;
  n = (n ^ (n >> 27)) * 0x94d049bb133111ebull;
  return (n ^ (n >> 31)) | 1;
}

// Word i of block b counts Odd(i) Odd(kBlock + b) times.
constexpr auto kFactors = [] {
  std::array<uint64_t, kBlock> factors{};
  for (uint64_t i = 0; i < kBlock; ++i) factors[i] = Odd(i);
  return factors;
}();

// Of bytes within one block, from byte `at` of it on.
uint64_t SumOfBlock(int64_t at, std::span<const char> bytes) {
  uint64_t sum = 0;
  size_t k = 0;
  // A word in parts: what each part adds is its share of the word.
  const auto add_bytes = [&](size_t end) {
    for (; k < end; ++k, ++at) {
      sum += (uint64_t{static_cast<unsigned char>(bytes[k])} << 8 * (at % 4)) *
             kFactors[static_cast<size_t>(at / 4)];
    }
  };
  add_bytes(std::min(bytes.size(), static_cast<size_t>((4 - at % 4) % 4)));
  const size_t words = (bytes.size() - k) / 4;
  const uint64_t* const factors = kFactors.data() + at / 4;
  for (size_t i = 0; i < words; ++i) {
    uint32_t word;
    std::memcpy(&word, bytes.data() + k + 4 * i, 4);
    sum += word * factors[i];
  }
  k += 4 * words, at += static_cast<int64_t>(4 * words);
  add_bytes(bytes.size());
  return sum;
}

}  // namespace

void Checksum::Add(int64_t offset, std::span<const char> bytes) {
  uint64_t sum = 0;
  while (!bytes.empty()) {
    const int64_t block = offset / (4 * kBlock), at = offset % (4 * kBlock);
    const size_t n = std::min(bytes.size(), static_cast<size_t>(4 * kBlock - at));
    sum += SumOfBlock(at, bytes.first(n)) * Odd(static_cast<uint64_t>(kBlock + block));
    bytes = bytes.subspan(n);
    offset += static_cast<int64_t>(n);
  }
  sum_ += sum;
}

uint64_t ChecksumOf(std::span<const char> bytes) {
  Checksum sum;
  ParallelFor((bytes.size() + kPiece - 1) / kPiece, [&](size_t i) {
    const size_t at = i * kPiece;
    sum.Add(static_cast<int64_t>(at),
            bytes.subspan(at, std::min<size_t>(kPiece, bytes.size() - at)));
  });
  return sum.value();
}

}  // namespace stator
