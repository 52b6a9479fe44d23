// Where token ids come from: bytes of text in memory, token files, and what a bigram model would
// make of them.
#include "frontend/driver/data.h"
#include "frontend/driver/file.h"
#include "ir/base/error.h"

#include <algorithm>
#include <cmath>
#include <span>

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

// Read where a batch asks, and not mapped: a file that is cut while a run reads it is an error
// then, and not a signal.
class FileTokens : public Tokens {
 public:
  FileTokens(const std::string& path, TokenWidth width, int64_t vocab_size)
      : file_(path), vocab_size_(vocab_size) {
    if (file_.size() == 0) Fail(ErrorCode::kIo, path, " is empty");
    FindTokens(width);
  }

  int64_t size() const override { return count_; }
  void Read(int64_t start, int64_t count, int32_t* out) const override {
    const int64_t at = first_ + start * width_;
    if (width_ == 2) {
      std::vector<uint16_t> ids(static_cast<size_t>(count));
      file_.Read(at, {reinterpret_cast<char*>(ids.data()), ids.size() * 2});
      std::copy(ids.begin(), ids.end(), out);
    } else {
      file_.Read(at, {reinterpret_cast<char*>(out), static_cast<size_t>(count) * 4});
    }
    CheckIds(start, {out, static_cast<size_t>(count)});
  }

 private:
  // Of each batch, as files may be larger than memory, where a look at all would take minutes.
  void CheckIds(int64_t start, std::span<const int32_t> ids) const {
    for (size_t i = 0; i < ids.size(); ++i) {
      const int64_t id = static_cast<uint32_t>(ids[i]);
      if (id < vocab_size_) continue;
      Fail(ErrorCode::kInvalidArgument, "data: token ", start + static_cast<int64_t>(i), " of ",
           file_.path(), " is ", id, ", which is not in [0, ", vocab_size_,
           "); vocab_size or data_dtype does not fit, or the file is damaged");
    }
  }

  void FindTokens(TokenWidth width) {
    width_ = width == TokenWidth::kU16 ? 2 : 4;
    int64_t bytes = file_.size();
    int32_t header[3] = {};
    if (bytes >= kHeaderBytes) file_.Read(0, {reinterpret_cast<char*>(header), sizeof header});
    if (header[0] == kGpt2Magic || header[0] == kLlama3Magic) {
      width_ = header[0] == kGpt2Magic ? 2 : 4;
      first_ = kHeaderBytes;
      bytes -= kHeaderBytes;
      if (bytes != int64_t{header[2]} * width_) {
        Fail(ErrorCode::kParse, file_.path(), ": the header names ", header[2],
             " tokens, the file holds ", bytes / width_);
      }
    }
    if (bytes % width_ != 0) {
      Fail(ErrorCode::kParse, file_.path(), ": ", bytes, " bytes are no whole number of ", width_,
           "-byte tokens");
    }
    count_ = bytes / width_;
  }

  InputFile file_;
  int64_t first_ = 0;  // byte
  int64_t count_ = 0;
  int width_ = 2;  // bytes
  int64_t vocab_size_ = 0;
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

std::shared_ptr<const Tokens> TokenFile(const std::string& path, TokenWidth width,
                                        int64_t vocab_size) {
  return std::make_shared<FileTokens>(path, width, vocab_size);
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
