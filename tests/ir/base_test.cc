// Strings, containers, threads and the reduction tree.
#include "ir/base/parallel.h"
#include "ir/base/small_vector.h"
#include "ir/base/str.h"
#include "ir/base/symbol.h"
#include "ir/reduce_tree.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace stator {
namespace {

TEST(GlobMatch, stars_and_question_marks) {
  EXPECT_TRUE(GlobMatch("*", ""));
  EXPECT_TRUE(GlobMatch("h.*/mlp/*", "h.3/mlp/up/w"));
  EXPECT_TRUE(GlobMatch("*bias", "h.0/attn/bias"));
  EXPECT_TRUE(GlobMatch("h.?/w", "h.3/w"));
  EXPECT_TRUE(GlobMatch("*a*b*c", "xxaxxbxxbc"));
  EXPECT_TRUE(GlobMatch("", ""));
  EXPECT_FALSE(GlobMatch("", "a"));
  EXPECT_FALSE(GlobMatch("h.?/w", "h.12/w"));
  EXPECT_FALSE(GlobMatch("*bias", "bias2"));
  EXPECT_FALSE(GlobMatch("a*b", "ab2"));
}

TEST(FormatDouble, reads_back) {
  for (const double v :
       {0.1, 1.0, -0.0, 1e300, 5e-324, 123456789.0, std::numeric_limits<double>::max()}) {
    EXPECT_EQ(std::strtod(FormatDouble(v).c_str(), nullptr), v);
    EXPECT_EQ(std::signbit(std::strtod(FormatDouble(v).c_str(), nullptr)), std::signbit(v));
  }
  EXPECT_EQ(FormatDouble(3), "3.0");
}

TEST(SplitAndTrim, keep_empty_parts) {
  EXPECT_EQ(Split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(Trim("  a b\n"), "a b");
  EXPECT_EQ(Trim(" \n"), "");
}

TEST(HashBytes, depends_on_text_and_seed) {
  EXPECT_EQ(HashBytes("abc"), HashBytes("abc"));
  EXPECT_NE(HashBytes("abc"), HashBytes("abd"));
  EXPECT_NE(HashBytes("abc"), HashBytes("abc", 1));
  EXPECT_EQ(Hex64(255), "00000000000000ff");
}

// --- the reduction tree ---

// Folds strings, so that the result shows the order: (ab) is a combined with b.
std::string Order(int64_t n, int64_t lanes) {
  std::vector<std::string> storage(lanes);
  return FoldLanes<std::string>(
      n, lanes, storage.data(),
      [](int64_t k) { return std::string(1, static_cast<char>('a' + k)); },
      [](const std::string& a, const std::string& b) { return "(" + a + b + ")"; });
}

TEST(ReduceTree, pairs_neighbours) {
  EXPECT_EQ(Order(1, 8), "a");
  EXPECT_EQ(Order(2, 8), "(ab)");
  EXPECT_EQ(Order(4, 8), "((ab)(cd))");
  EXPECT_EQ(Order(8, 8), "(((ab)(cd))((ef)(gh)))");
}

TEST(Symbol, equal_texts_are_one_from_any_thread) {
  std::vector<const std::string*> texts(64);
  ParallelFor(texts.size(), [&](size_t i) { texts[i] = &Symbol(StrCat("h.", i % 4)).str(); });
  for (size_t i = 4; i < texts.size(); ++i) EXPECT_EQ(texts[i], texts[i % 4]);
  EXPECT_TRUE(Symbol("a") < Symbol("b"));
  EXPECT_TRUE(Symbol().empty());
}

TEST(SmallVector, grows_out_of_the_object_and_keeps_its_order) {
  SmallVector<std::string, 2> v;
  for (int i = 0; i < 9; ++i) v.push_back(StrCat("a string that is not short ", i));
  v.erase(v.begin() + 3);
  ASSERT_EQ(v.size(), 8u);
  EXPECT_EQ(v[2], "a string that is not short 2");
  EXPECT_EQ(v[3], "a string that is not short 4");
  const std::vector<std::string> two = {"x", "y"};
  v.assign(two.begin(), two.end());
  EXPECT_EQ(v.size(), 2u);
  EXPECT_EQ(v[1], "y");
}

TEST(ParallelFor, does_everything_once_and_throws_what_the_lowest_number_threw) {
  std::vector<int> done(1000, 0);
  const auto work = [&](size_t i) {
    ++done[i];
    if (i == 17 || i == 900) throw std::runtime_error(std::to_string(i));
  };
  try {
    ParallelFor(done.size(), work);
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "17");
  }
  for (const int times : done) EXPECT_EQ(times, 1);
  ParallelFor(0, [](size_t) { FAIL(); });
}

TEST(ParallelFor, takes_no_more_threads_than_the_limit) {
  for (const size_t most : {1, 2}) {
    LimitThreads(most);
    std::vector<std::thread::id> ids(1000);
    ParallelFor(ids.size(), [&](size_t i) { ids[i] = std::this_thread::get_id(); });
    EXPECT_LE(std::set(ids.begin(), ids.end()).size(), most);
  }
  LimitThreads(0);
}

TEST(ReduceTree, an_empty_right_side_keeps_the_left) {
  EXPECT_EQ(Order(3, 8), "((ab)c)");
  EXPECT_EQ(Order(5, 8), "(((ab)(cd))e)");
  EXPECT_EQ(Order(6, 8), "(((ab)(cd))(ef))");
}

TEST(ReduceTree, lanes_fold_their_elements_in_order_first) {
  EXPECT_EQ(Order(6, 2), "(((ac)e)((bd)f))");
  EXPECT_EQ(Order(5, 4), "(((ae)b)(cd))");
}

TEST(ReduceTree, column_chunks_are_at_most_512_and_cover_everything) {
  EXPECT_EQ(ColumnChunk(0), 1);
  EXPECT_EQ(ColumnChunk(1), 1);
  EXPECT_EQ(ColumnChunk(512), 512);
  for (const int64_t n : {513, 1000, 32768, 32769, 70001, 1 << 20, 50000000}) {
    const int64_t chunk = ColumnChunk(n), chunks = (n + chunk - 1) / chunk;
    EXPECT_LE(chunks, kColumnPartials) << n;
    EXPECT_GE(chunk, 64) << n;
    EXPECT_EQ(BitCeil(chunk), chunk) << n;
  }
}

}  // namespace
}  // namespace stator
