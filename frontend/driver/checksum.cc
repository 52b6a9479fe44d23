#include "frontend/driver/checksum.h"

#include "ir/base/error.h"
#include "ir/base/parallel.h"

#include <zlib.h>

#include <algorithm>

namespace stator {

void Checksum::Add(int64_t offset, std::span<const char> bytes) {
  const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  const std::lock_guard lock(mutex_);
  pieces_.push_back({offset, static_cast<int64_t>(bytes.size()), static_cast<uint32_t>(crc)});
}

uint32_t Checksum::value() const {
  std::vector<Piece> pieces;
  {
    const std::lock_guard lock(mutex_);
    pieces = pieces_;
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
  uLong crc = 0;
  int64_t end = 0;
  for (const Piece& piece : pieces) {
    STATOR_CHECK(piece.offset == end, "a checksum has no bytes from ", end, " to ", piece.offset);
    crc = crc32_combine(crc, piece.crc, piece.size);
    end += piece.size;
  }
  return static_cast<uint32_t>(crc);
}

uint32_t ChecksumOf(std::span<const char> bytes) {
  constexpr size_t kPiece = size_t{1} << 20;
  Checksum sum;
  ParallelFor((bytes.size() + kPiece - 1) / kPiece, [&](size_t i) {
    const size_t at = i * kPiece;
    sum.Add(static_cast<int64_t>(at), bytes.subspan(at, std::min(kPiece, bytes.size() - at)));
  });
  return sum.value();
}

std::string ChecksumText(uint32_t value) { return Hex64(value).substr(8); }

}  // namespace stator
