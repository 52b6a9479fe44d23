// The data a language model trains on: token streams of text or token files, their split, and
// batches that are a function of (seed, step, micro-batch) alone, so that resuming needs no more
// than the step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace stator {

// A read-only sequence of token ids.
class Tokens {
 public:
  virtual ~Tokens() = default;
  virtual int64_t size() const = 0;
  // Widens ids [start, start + count) into `out`.
  virtual void Read(int64_t start, int64_t count, int32_t* out) const = 0;
};

enum class TokenWidth { kU16, kU32 };
inline constexpr int64_t kAnyId = int64_t{1} << 31;  // a vocab_size that admits what int32 can say

// Bytes as tokens: a vocabulary of 256.
std::shared_ptr<const Tokens> ByteTokens(std::string text);
// A token file, read as batches ask: raw little-endian ids (nanoGPT's train.bin), or the same after
// a header of 256 int32 (llm.c's, known by its magic number). Throws `Error` (kIo, kParse) naming
// the file; its Read throws (kInvalidArgument) naming an id that is not in [0, vocab_size).
std::shared_ptr<const Tokens> TokenFile(const std::string& path, TokenWidth width,
                                        int64_t vocab_size = kAnyId);
// The part [start, start + count) of `whole`.
std::shared_ptr<const Tokens> SliceTokens(std::shared_ptr<const Tokens> whole, int64_t start,
                                          int64_t count);

struct DataOptions {
  std::vector<std::string> files;      // text or .bin; empty: Debian's `fortunes`
  std::vector<std::string> val_files;  // empty: the end of `files`
  double val_fraction = 0.1;
  TokenWidth width = TokenWidth::kU16;  // of .bin files
  int64_t vocab_size = kAnyId;          // of .bin files: their ids are below
};

struct Dataset {
  std::shared_ptr<const Tokens> train, val;
  bool bytes = true;        // text: ids are bytes
  std::string description;  // "2,576,674 bytes of text, Debian's fortunes (43 files)"
};

// Reads or maps the files, in the order given, and splits them. Throws `Error` (kIo,
// kInvalidArgument) for files that are missing, empty, or of both kinds.
Dataset LoadDataset(const DataOptions& options);

// The text files of Debian's `fortunes` package in name order, without their indices and aliases.
// Throws `Error` (kEnvironment) saying what to install when they hold less than 1 MB.
std::vector<std::string> FortuneFiles(const std::string& directory = "/usr/share/games/fortunes");

// A batch: tokens and the tokens that follow them, both [batch, block] row-major.
struct Batch {
  std::vector<int32_t> tokens, targets;
};

class BatchSource {
 public:
  // Throws `Error` (kInvalidArgument) when `tokens` holds fewer than block + 1 ids; `what` names
  // the split in the message.
  BatchSource(std::shared_ptr<const Tokens> tokens, int64_t batch, int64_t block,
              const std::string& what);

  // Rows start at independent uniform offsets drawn by (seed, step, micro_batch, row).
  Batch Random(uint64_t seed, int64_t step, int64_t micro_batch) const;
  // The `index`th of `count` batches whose rows lie evenly over the whole stream.
  Batch Even(int64_t index, int64_t count) const;

 private:
  void FillRow(int64_t row, int64_t start, Batch& batch) const;
  Batch Empty() const;

  std::shared_ptr<const Tokens> tokens_;
  int64_t batch_, block_;
};

// What predicting a byte from the one before it costs, in nats per byte.
struct BigramEntropy {
  // Cross-entropy of the validation text under the training text's bigram counts:
  //   -1/N sum over validation pairs (a,b) of ln p(b|a),  p(b|a) = (n(a,b) + 1) / (n(a) + 256).
  // What a bigram model trained on the same text would reach as its validation loss.
  double val = 0;
  // Conditional entropy H(b|a) of the validation text's own counts, which no bigram model beats.
  double val_own = 0;
};
BigramEntropy ByteBigramEntropy(const Tokens& train, const Tokens& val);

}  // namespace stator
