// Where token ids come from: bytes of text in memory, mapped token files, and what a bigram model
// would make of them.
#include "frontend/driver/data.h"
#include "ir/base/error.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

namespace stator {
namespace {

// llm.c's token files open with 256 int32: a magic number, a version, the number of tokens.
constexpr int32_t kGpt2Magic = 20240520, kLlama3Magic = 20240801;
constexpr int64_t kHeaderBytes = 256 * 4;

class TextTokens : public Tokens {
 public:
  explicit TextTokens(std::string text) : text_(std::move(text)) {}
  int64_t size() const override { return static_cast<int64_t>(text_.size()); }
  void Read(int64_t start, int64_t count, int32_t* out) const override {
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<unsigned char>(text_[start + i]);
  }

 private:
  std::string text_;
};

class MappedTokens : public Tokens {
 public:
  MappedTokens(const std::string& path, TokenWidth width) : path_(path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) Fail(ErrorCode::kIo, "cannot open ", path, ": ", std::strerror(errno));
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) {
      close(fd);
      Fail(ErrorCode::kIo, path, " is empty or not a regular file");
    }
    bytes_ = info.st_size;
    map_ = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, fd, 0);
    const int error = errno;
    close(fd);
    if (map_ == MAP_FAILED) Fail(ErrorCode::kIo, "cannot map ", path, ": ", std::strerror(error));
    try {
      FindTokens(width);
    } catch (...) {
      munmap(map_, bytes_);
      throw;
    }
  }
  ~MappedTokens() override { munmap(map_, bytes_); }
  MappedTokens(const MappedTokens&) = delete;

  int64_t size() const override { return count_; }
  void Read(int64_t start, int64_t count, int32_t* out) const override {
    if (width_ == 2) {
      const auto* ids = static_cast<const uint16_t*>(first_) + start;
      for (int64_t i = 0; i < count; ++i) out[i] = ids[i];
    } else {
      // An id past 2^31 turns negative, which the executor's range check then refuses.
      std::memcpy(out, static_cast<const uint32_t*>(first_) + start, count * 4);
    }
  }

 private:
  void FindTokens(TokenWidth width) {
    width_ = width == TokenWidth::kU16 ? 2 : 4;
    first_ = map_;
    int64_t bytes = bytes_;
    const auto* header = static_cast<const int32_t*>(map_);
    if (bytes_ >= kHeaderBytes && (header[0] == kGpt2Magic || header[0] == kLlama3Magic)) {
      width_ = header[0] == kGpt2Magic ? 2 : 4;
      first_ = static_cast<const char*>(map_) + kHeaderBytes;
      bytes -= kHeaderBytes;
      if (bytes != int64_t{header[2]} * width_) {
        Fail(ErrorCode::kParse, path_, ": the header names ", header[2], " tokens, the file holds ",
             bytes / width_);
      }
    }
    if (bytes % width_ != 0) {
      Fail(ErrorCode::kParse, path_, ": ", bytes, " bytes are no whole number of ", width_,
           "-byte tokens");
    }
    count_ = bytes / width_;
  }

  std::string path_;
  void* map_ = nullptr;
  const void* first_ = nullptr;
  int64_t bytes_ = 0, count_ = 0;
  int width_ = 2;
};

// Counts of byte pairs, by 256 * first + second.
std::vector<int64_t> CountPairs(const Tokens& text) {
  std::vector<int64_t> pairs(256 * 256);
  constexpr int64_t kChunk = 1 << 16;
  std::vector<int32_t> ids(kChunk + 1);
  for (int64_t start = 0; start + 1 < text.size(); start += kChunk) {
    const int64_t n = std::min(kChunk, text.size() - 1 - start);  // pairs in this chunk
    text.Read(start, n + 1, ids.data());
    for (int64_t i = 0; i < n; ++i) ++pairs[(ids[i] & 255) << 8 | (ids[i + 1] & 255)];
  }
  return pairs;
}

}  // namespace

std::shared_ptr<const Tokens> ByteTokens(std::string text) {
  return std::make_shared<TextTokens>(std::move(text));
}

std::shared_ptr<const Tokens> TokenFile(const std::string& path, TokenWidth width) {
  return std::make_shared<MappedTokens>(path, width);
}

BigramEntropy ByteBigramEntropy(const Tokens& train, const Tokens& val) {
  const std::vector<int64_t> known = CountPairs(train), seen = CountPairs(val);
  BigramEntropy entropy;
  int64_t total = 0;
  for (int a = 0; a < 256; ++a) {
    int64_t known_a = 0, seen_a = 0;
    for (int b = 0; b < 256; ++b) {
      known_a += known[a << 8 | b];
      seen_a += seen[a << 8 | b];
    }
    for (int b = 0; b < 256; ++b) {
      const auto n = static_cast<double>(seen[a << 8 | b]);
      if (n == 0) continue;
      const auto k = static_cast<double>(known[a << 8 | b]);
      entropy.val -= n * std::log((k + 1) / (static_cast<double>(known_a) + 256));
      entropy.val_own -= n * std::log(n / static_cast<double>(seen_a));
    }
    total += seen_a;
  }
  if (total > 0) {
    entropy.val /= static_cast<double>(total);
    entropy.val_own /= static_cast<double>(total);
  }
  return entropy;
}

}  // namespace stator
