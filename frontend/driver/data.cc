#include "frontend/driver/data.h"

#include "frontend/driver/file.h"
#include "frontend/driver/format.h"
#include "frontend/driver/random_bits.h"
#include "ir/base/error.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

namespace stator {
namespace {

constexpr int64_t kMinFortuneBytes = 1'000'000;

class SliceOf : public Tokens {
 public:
  SliceOf(std::shared_ptr<const Tokens> whole, int64_t start, int64_t count)
      : whole_(std::move(whole)), start_(start), count_(count) {}
  int64_t size() const override { return count_; }
  void Read(int64_t start, int64_t count, int32_t* out) const override {
    whole_->Read(start_ + start, count, out);
  }

 private:
  std::shared_ptr<const Tokens> whole_;
  int64_t start_, count_;
};

class Concatenation : public Tokens {
 public:
  explicit Concatenation(std::vector<std::shared_ptr<const Tokens>> parts)
      : parts_(std::move(parts)) {
    for (const auto& p : parts_) size_ += p->size();
  }
  int64_t size() const override { return size_; }
  void Read(int64_t start, int64_t count, int32_t* out) const override {
    for (const auto& p : parts_) {
      const int64_t n = std::min(count, p->size() - start);
      if (n > 0) {
        p->Read(start, n, out);
        out += n;
        count -= n;
        start = 0;
      } else {
        start -= p->size();
      }
      if (count == 0) return;
    }
  }

 private:
  std::vector<std::shared_ptr<const Tokens>> parts_;
  int64_t size_ = 0;
};

bool IsTokenFile(const std::string& path) { return path.ends_with(".bin"); }

std::string ReadTexts(const std::vector<std::string>& files) {
  std::string text;
  for (const std::string& path : files) {
    const std::vector<char> bytes = ReadFile(path);
    text.append(bytes.begin(), bytes.end());
  }
  return text;
}

// `bytes`: text, as `first` is, the file that said so.
std::shared_ptr<const Tokens> Load(const std::vector<std::string>& files, bool bytes,
                                   const std::string& first, const DataOptions& options) {
  for (const std::string& path : files) {
    if (IsTokenFile(path) == bytes) {
      Fail(ErrorCode::kInvalidArgument, "data: ", first, " is ",
           bytes ? "text" : "a token file (.bin)", " and ", path, " is not; give one kind");
    }
  }
  if (bytes) return ByteTokens(ReadTexts(files));
  std::vector<std::shared_ptr<const Tokens>> parts;
  for (const std::string& path : files) {
    parts.push_back(TokenFile(path, options.width, options.vocab_size));
  }
  return parts.size() == 1 ? parts[0] : std::make_shared<Concatenation>(std::move(parts));
}

}  // namespace

std::shared_ptr<const Tokens> SliceTokens(std::shared_ptr<const Tokens> whole, int64_t start,
                                          int64_t count) {
  STATOR_CHECK(start >= 0 && count >= 0 && start + count <= whole->size(), "slice [", start, ", +",
               count, ") of ", whole->size());
  return std::make_shared<SliceOf>(std::move(whole), start, count);
}

Dataset LoadDataset(const DataOptions& options) {
  const bool fortunes = options.files.empty();
  const std::vector<std::string> files = fortunes ? FortuneFiles() : options.files;
  Dataset data;
  data.bytes = !IsTokenFile(files[0]);
  const auto whole = Load(files, data.bytes, files[0], options);
  const char* unit = data.bytes ? "bytes of text" : "tokens";
  data.description = fortunes ? StrCat(FormatCount(whole->size()), " ", unit,
                                       ", Debian's fortunes (", files.size(), " files)")
                     : files.size() == 1
                         ? StrCat(FormatCount(whole->size()), " ", unit, ", ", files[0])
                         : StrCat(FormatCount(whole->size()), " ", unit, ", ", files.size(),
                                  " files from ", files[0]);
  if (whole->size() == 0) Fail(ErrorCode::kInvalidArgument, "data: ", files[0], " is empty");
  if (!options.val_files.empty()) {
    data.train = whole;
    data.val = Load(options.val_files, data.bytes, files[0], options);
    return data;
  }
  const int64_t val = std::llround(options.val_fraction * static_cast<double>(whole->size()));
  data.train = SliceTokens(whole, 0, whole->size() - val);
  data.val = SliceTokens(whole, whole->size() - val, val);
  return data;
}

std::vector<std::string> FortuneFiles(const std::string& directory) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  int64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const fs::path& path = entry.path();
    // NAME is text; NAME.dat is its index, NAME.u8 a link to it.
    if (!entry.is_regular_file() || entry.is_symlink() || path.has_extension()) continue;
    files.push_back(path.string());
    bytes += static_cast<int64_t>(entry.file_size());
  }
  if (bytes < kMinFortuneBytes) {
    Fail(ErrorCode::kEnvironment, "no training text: ", directory, " holds ", bytes,
         " bytes of fortunes; apt-get install fortunes, or name a text with --data FILE");
  }
  std::sort(files.begin(), files.end());
  return files;
}

BatchSource::BatchSource(std::shared_ptr<const Tokens> tokens, int64_t batch, int64_t block,
                         const std::string& what)
    : tokens_(std::move(tokens)), batch_(batch), block_(block) {
  if (tokens_->size() < block + 1) {
    Fail(ErrorCode::kInvalidArgument, "data: the ", what, " split holds ", tokens_->size(),
         " tokens; block_size ", block, " needs at least ", block + 1);
  }
}

Batch BatchSource::Empty() const {
  const size_t n = static_cast<size_t>(batch_ * block_);
  return {std::vector<int32_t>(n), std::vector<int32_t>(n)};
}

void BatchSource::FillRow(int64_t row, int64_t start, Batch& batch) const {
  tokens_->Read(start, block_, &batch.tokens[row * block_]);
  tokens_->Read(start + 1, block_, &batch.targets[row * block_]);
}

Batch BatchSource::Random(uint64_t seed, int64_t step, int64_t micro_batch) const {
  Batch batch = Empty();
  const auto offsets = static_cast<uint64_t>(tokens_->size() - block_);
  for (int64_t row = 0; row < batch_; ++row) {
    const uint64_t bits = RandomBits(seed, Purpose::kBatches, static_cast<uint64_t>(step),
                                     static_cast<uint64_t>(micro_batch * batch_ + row));
    // The high word of bits * offsets is uniform over [0, offsets) to within offsets / 2^64.
    const auto start = static_cast<int64_t>(static_cast<unsigned __int128>(bits) * offsets >> 64);
    FillRow(row, start, batch);
  }
  return batch;
}

Batch BatchSource::Even(int64_t index, int64_t count) const {
  Batch batch = Empty();
  const int64_t last = tokens_->size() - block_ - 1;  // the last offset
  const int64_t rows = std::max<int64_t>(1, count * batch_ - 1);
  for (int64_t row = 0; row < batch_; ++row) {
    const auto at = static_cast<__int128>(index * batch_ + row) * last / rows;
    FillRow(row, static_cast<int64_t>(at), batch);
  }
  return batch;
}

}  // namespace stator
