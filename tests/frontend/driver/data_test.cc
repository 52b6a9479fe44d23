#include "frontend/driver/data.h"

#include "frontend/driver/file.h"
#include "tests/frontend/driver/driver_support.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace stator {
namespace {

std::shared_ptr<const Tokens> Counting(int64_t n) {
  std::string text;
  for (int64_t i = 0; i < n; ++i) text += static_cast<char>(i % 251);
  return ByteTokens(text);
}

TEST(Data, a_batch_is_a_function_of_seed_step_and_micro_batch) {
  const BatchSource source(Counting(10000), 4, 16, "training");
  const Batch a = source.Random(1, 5, 0);
  EXPECT_EQ(a.tokens, BatchSource(Counting(10000), 4, 16, "").Random(1, 5, 0).tokens);
  EXPECT_NE(a.tokens, source.Random(2, 5, 0).tokens);
  EXPECT_NE(a.tokens, source.Random(1, 6, 0).tokens);
  EXPECT_NE(a.tokens, source.Random(1, 5, 1).tokens);
}

TEST(Data, targets_follow_their_tokens) {
  const Batch b = BatchSource(Counting(500), 3, 8, "").Random(7, 0, 0);
  ASSERT_EQ(b.tokens.size(), 24u);
  for (size_t i = 0; i < b.tokens.size(); ++i) EXPECT_EQ(b.targets[i], (b.tokens[i] + 1) % 251);
}

TEST(Data, random_rows_reach_both_ends_of_the_text) {
  const BatchSource source(Counting(20), 8, 16, "");  // offsets 0 .. 3
  std::set<int32_t> first;
  for (int64_t step = 0; step < 50; ++step) {
    const Batch b = source.Random(0, step, 0);
    for (int row = 0; row < 8; ++row) first.insert(b.tokens[row * 16]);
  }
  EXPECT_EQ(first, (std::set<int32_t>{0, 1, 2, 3}));
}

TEST(Data, even_batches_run_from_the_first_token_to_the_last) {
  const BatchSource source(Counting(200), 4, 16, "");
  EXPECT_EQ(source.Even(0, 5).tokens[0], 0);
  EXPECT_EQ(source.Even(4, 5).targets[4 * 16 - 1], 199);
}

TEST(Data, a_text_shorter_than_a_block_is_refused) {
  EXPECT_EQ(ErrorOf([] { BatchSource(Counting(16), 1, 16, "validation"); }),
            "data: the validation split holds 16 tokens; block_size 16 needs at least 17");
  BatchSource(Counting(17), 1, 16, "");
}

TEST(Data, text_is_split_at_its_end) {
  TempDir dir;
  WriteFileAtomically(dir / "a", std::string(60, 'a'));
  WriteFileAtomically(dir / "b", std::string(40, 'b'));
  DataOptions options{.files = {dir / "a", dir / "b"}, .val_files = {}, .val_fraction = 0.25};
  const Dataset data = LoadDataset(options);
  EXPECT_EQ(data.train->size(), 75);
  EXPECT_EQ(data.val->size(), 25);
  int32_t id = 0;
  data.train->Read(60, 1, &id);
  EXPECT_EQ(id, 'b');
  options.val_files = {dir / "b"};
  EXPECT_EQ(LoadDataset(options).train->size(), 100);
}

TEST(Data, token_files_are_read_raw_or_after_a_header) {
  TempDir dir;
  const uint16_t raw[] = {1, 50256, 65535};
  WriteFileAtomically(dir / "raw.bin", std::string_view(reinterpret_cast<const char*>(raw), 6));
  const auto tokens = TokenFile(dir / "raw.bin", TokenWidth::kU16);
  std::vector<int32_t> ids(3);
  tokens->Read(0, 3, ids.data());
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 50256, 65535}));

  std::string with_header(1024, '\0');
  const int32_t header[] = {20240520, 1, 3};
  std::memcpy(with_header.data(), header, sizeof header);
  with_header.append(reinterpret_cast<const char*>(raw), 6);
  WriteFileAtomically(dir / "head.bin", with_header);
  EXPECT_EQ(TokenFile(dir / "head.bin", TokenWidth::kU16)->size(), 3);
  WriteFileAtomically(dir / "cut.bin", with_header.substr(0, 1028));
  EXPECT_HAS(ErrorOf([&] { TokenFile(dir / "cut.bin", TokenWidth::kU16); }),
             "the header names 3 tokens, the file holds 2");
  WriteFileAtomically(dir / "odd.bin", "abc");
  EXPECT_HAS(ErrorOf([&] { TokenFile(dir / "odd.bin", TokenWidth::kU16); }), "no whole number");
}

TEST(Data, an_id_beyond_the_vocabulary_is_named_with_its_place) {
  TempDir dir;
  const uint32_t ids[] = {1, 299, 300, 4294967295};
  const auto write = [&](const std::string& name, size_t n) {
    WriteFileAtomically(dir / name, {reinterpret_cast<const char*>(ids), n * 4});
  };
  write("a.bin", 2), write("b.bin", 4);
  const DataOptions options{.files = {dir / "a.bin", dir / "b.bin"},
                            .val_files = {dir / "a.bin"},
                            .width = TokenWidth::kU32,
                            .vocab_size = 300};
  const Dataset data = LoadDataset(options);
  std::vector<int32_t> read(6);
  data.train->Read(0, 4, read.data());
  EXPECT_EQ(ErrorOf([&] { data.train->Read(0, 6, read.data()); }),
            StrCat("data: token 2 of ", dir / "b.bin", " is 300, which is not in [0, 300); ",
                   "vocab_size or data_dtype does not fit, or the file is damaged"));
  EXPECT_HAS(ErrorOf([&] { data.train->Read(5, 1, read.data()); }),
             "b.bin is 4294967295, which is not in [0, 300)");
}

TEST(Data, a_token_file_that_shrinks_while_it_is_read_is_an_error) {
  TempDir dir;
  const std::string path = dir / "x.bin";
  WriteFileAtomically(path, std::string(100'000, 'x'));
  const auto tokens = TokenFile(path, TokenWidth::kU16);
  std::filesystem::resize_file(path, 10);
  std::vector<int32_t> ids(100);
  EXPECT_HAS(ErrorOf([&] { tokens->Read(40'000, 100, ids.data()); }), "x.bin ends early");
}

TEST(Data, text_and_token_files_do_not_mix) {
  TempDir dir;
  WriteFileAtomically(dir / "a", "abc");
  WriteFileAtomically(dir / "b.bin", "ab");
  EXPECT_HAS(ErrorOf([&] {
               DataOptions options;
               options.files = {dir / "a", dir / "b.bin"};
               LoadDataset(options);
             }),
             "give one kind");
  EXPECT_HAS(ErrorOf([&] {
               DataOptions options;
               options.files = {dir / "a"};
               options.val_files = {dir / "b.bin"};
               LoadDataset(options);
             }),
             "a is text and ");
}

TEST(Data, missing_files_are_named) {
  DataOptions options;
  options.files = {"/nonexistent/x.txt"};
  EXPECT_HAS(ErrorOf([&] { LoadDataset(options); }), "cannot open /nonexistent/x.txt");
  EXPECT_HAS(ErrorOf([] { FortuneFiles("/nonexistent"); }), "apt-get install fortunes");
}

TEST(Data, bigram_entropy_by_hand) {
  // Training pairs: ab three times, ba twice. Validation pairs: ab, ba, aa.
  const BigramEntropy e = ByteBigramEntropy(*ByteTokens("ababab"), *ByteTokens("abaa"));
  const double expected = -(std::log(4.0 / 259) + std::log(3.0 / 258) + std::log(1.0 / 259)) / 3;
  EXPECT_NEAR(e.val, expected, 1e-12);
  // By its own counts: a is followed by b or a, once each; b by a.
  EXPECT_NEAR(e.val_own, -(2 * std::log(0.5) + std::log(1.0)) / 3, 1e-12);
}

TEST(Data, bigram_entropy_of_a_long_text_crosses_its_chunks) {
  std::string text;
  for (int i = 0; i < 200000; ++i) text += i % 2 ? 'a' : 'b';
  EXPECT_NEAR(ByteBigramEntropy(*ByteTokens(text), *ByteTokens(text)).val_own, 0, 1e-12);
  EXPECT_LT(ByteBigramEntropy(*ByteTokens(text), *ByteTokens(text)).val, 0.003);
}

}  // namespace
}  // namespace stator
