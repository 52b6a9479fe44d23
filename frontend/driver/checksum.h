// Checksums of tensors in files: whether the bytes that are read are those that were written.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace stator {

// The CRC-32 of a tensor's bytes, as zlib has it (`zlib.crc32` of Python), from pieces that come in
// any order and from several threads.
class Checksum {
 public:
  // `bytes` begin at byte `offset` of the tensor. Pieces do not overlap.
  void Add(int64_t offset, std::span<const char> bytes);
  // Of all pieces, which leave no gap.
  uint32_t value() const;

 private:
  struct Piece {
    int64_t offset, size;
    uint32_t crc;
  };
  mutable std::mutex mutex_;
  std::vector<Piece> pieces_;
};

// Of a whole tensor, in threads.
uint32_t ChecksumOf(std::span<const char> bytes);

// As checkpoints write it: 8 hexadecimal digits.
std::string ChecksumText(uint32_t value);

}  // namespace stator
