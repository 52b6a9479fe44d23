// The pipeline as a table, the pass manager, and costs.
#include "passes/pipeline.h"

#include "ir/base/error.h"
#include "ir/text.h"
#include "passes/analysis/cost.h"

#include <gtest/gtest.h>

#include <set>

namespace stator::testing {
namespace {

TEST(Pipeline, every_pass_says_why_it_is_where_it_is) {
  std::set<std::string> names;
  for (const Pass& pass : AllPasses()) {
    EXPECT_FALSE(pass.why_here.empty()) << pass.name;
    EXPECT_TRUE(names.insert(pass.name).second) << pass.name << " is listed twice";
    EXPECT_EQ(pass.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), pass.name.npos);
    EXPECT_EQ(FindPass(pass.name).name, pass.name);
  }
}

TEST(Pipeline, unknown_pass_is_an_error_that_lists_the_known_ones) {
  try {
    FindPass("fuse-everything");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("no pass is named fuse-everything"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("autodiff"), std::string::npos);
  }
}

constexpr char kNegatedTwice[] = R"(graph @f(%x: f32[2]) -> f32[2] {
  %0 = neg(%x) : f32[2]
  %1 = neg(%0) : f32[2]
  return %1
}
)";

TEST(PassManager, times_counts_and_dumps) {
  const auto graph = ParseGraph(kNegatedTwice);
  std::vector<std::string> dumped;
  const auto timings =
      PassManager({FindPass("canonicalize"), FindPass("merge-duplicates")})
          .Run(*graph, {}, [&](const std::string& pass, const Graph&) { dumped.push_back(pass); });
  ASSERT_EQ(timings.size(), 2u);
  EXPECT_EQ(timings[0].name, "canonicalize");
  EXPECT_EQ(timings[0].nodes_before, 2);
  EXPECT_EQ(timings[0].nodes_after, 0);
  EXPECT_EQ(dumped, (std::vector<std::string>{"input", "canonicalize", "merge-duplicates"}));
}

TEST(PassManagerDeathTest, a_pass_that_breaks_the_graph_is_named) {
  const auto graph = ParseGraph(kNegatedTwice);
  const Pass broken{"breaks-order", "", [](Graph& g, const PassOptions&) {
                      g.MoveBefore(g.first()->next(), g.first());
                    }};
  EXPECT_DEATH(PassManager({broken}).Run(*graph, {}), "after pass breaks-order");
}

TEST(CostOf, counts_arithmetic_and_traffic) {
  const auto graph =
      ParseGraph(R"(graph @f(%x: f32[8,4], %y: f32[4,2], %t: f32[100,2]) -> (f32[8,2], f32[1,2]) {
  %0 = matmul(%x, %y) : f32[8,2]
  %1 = mul(%0, %0) : f32[8,2]
  %2 = slice(%t) {limits=[1,2], starts=[0,0]} : f32[1,2]
  return %1, %2
}
)");
  const std::vector<Node*> nodes = graph->Nodes();
  EXPECT_EQ(CostOf(*nodes[0]).flops, 2 * 8 * 4 * 2);
  EXPECT_EQ(CostOf(*nodes[0]).bytes_read, 4 * (32 + 8));
  EXPECT_EQ(CostOf(*nodes[1]).bytes_read, 4 * 16);  // the operand is read once
  EXPECT_EQ(CostOf(*nodes[1]).bytes_written, 4 * 16);
  EXPECT_EQ(CostOf(*nodes[2]).flops, 0);
  EXPECT_EQ(CostOf(*nodes[2]).bytes(), 4 * (2 + 2));
  EXPECT_EQ(CostOf(*graph).bytes_written, 4 * (16 + 16 + 2));
}

}  // namespace
}  // namespace stator::testing
