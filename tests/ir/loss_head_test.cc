// The loss head: the size of its chunks, and ignored targets. The generated tests of its records
// hold the chunked expansion against a reference without chunks.
#include "ir/ops/loss_head.h"

#include "tests/ir/compare.h"
#include "tests/support/op_cases.h"

#include <gtest/gtest.h>

namespace stator {
namespace {

TEST(LossHead, one_chunk_where_the_logits_are_small) {
  EXPECT_EQ(LossHeadChunk(1024, 256), 1024);
  EXPECT_EQ(LossHeadChunk(65536, 256), 65536);
  EXPECT_EQ(LossHeadChunk(0, 50304), 0);
  EXPECT_EQ(LossHeadChunk(7, 1), 7);
}

TEST(LossHead, chunks_hold_a_gibibyte_of_bf16_or_two_thousand_tokens) {
  EXPECT_EQ(LossHeadChunk(65536, 50304), 8192);
  EXPECT_EQ(LossHeadChunk(32768, 128256), 4096);
  EXPECT_EQ(LossHeadChunk(16384, 262144), 2048);
  EXPECT_EQ(LossHeadChunk(8192, 1048576), 2048);
  EXPECT_EQ(LossHeadChunk(8192, int64_t{1} << 40), 2048);
}

TEST(LossHead, chunks_are_of_one_size_or_nearly) {
  EXPECT_EQ(LossHeadChunk(20000, 50304), 6784);  // 6784, 6784, 6432
  EXPECT_EQ(LossHeadChunk(8193, 50304), 4224);   // 4224, 3969
}

TEST(LossHead, an_ignored_target_has_no_gradient) {
  const Tensor x = MakeTensor(DType::kF32, {2, 2}, {1, 2, 3, 4}),
               w = MakeTensor(DType::kF32, {3, 2}, {1, 0, 0, 1, 1, 1}),
               targets = MakeTensor(DType::kI32, {2}, {-100, 1});
  const Tensor dy = MakeTensor(DType::kF32, {2}, {5, 1});
  NamedTensors g =
      RunGrad("linear_cross_entropy", "(f32[2,2], f32[3,2], i32[2])", {x, w, targets}, {dy});
  NamedTensors alone =
      RunGrad("linear_cross_entropy", "(f32[1,2], f32[3,2], i32[1])",
              {MakeTensor(DType::kF32, {1, 2}, {3, 4}), w, MakeTensor(DType::kI32, {1}, {1})},
              {MakeTensor(DType::kF32, {1}, {1})});
  EXPECT_TRUE(Near(g.at("w"), alone.at("w"), 1e-6));
  EXPECT_EQ(g.at("x").f[0], 0);
  EXPECT_EQ(g.at("x").f[1], 0);
}

}  // namespace
}  // namespace stator
