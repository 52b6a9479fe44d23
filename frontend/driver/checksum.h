// Checksums of tensors in files: whether the bytes that are read are those that were written.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

namespace stator {

// Adds up the pieces of a tensor in any order and from several threads; how it is cut does not
// matter. Little-endian words w of 4 bytes, each times an odd number that hangs on its place, sum
// up mod 2^64 (multilinear hashing): any change within one word is seen, others all but surely. No
// defence against an adversary.
class Checksum {
 public:
  // `bytes` begin at byte `offset` of the tensor.
  void Add(int64_t offset, std::span<const char> bytes);
  uint64_t value() const { return sum_; }

 private:
  std::atomic<uint64_t> sum_{0};
};

// Of a whole tensor, in threads.
uint64_t ChecksumOf(std::span<const char> bytes);

}  // namespace stator
