// The kernels that Stator carries compile for every architecture it supports; no GPU needed.
#if STATOR_WITH_CUDA
#include "ir/base/error.h"
#include "runtime/cuda/kernels/sources.h"
#include "runtime/cuda/library.h"
#include "runtime/cuda/nvrtc.h"

#include <gtest/gtest.h>

namespace stator {
namespace {

class BuiltinKernels : public testing::TestWithParam<int> {};

TEST_P(BuiltinKernels, sort_compiles) {
  EXPECT_FALSE(CompileCuda(kSortSource, GetParam(), "sort").empty());
}

TEST_P(BuiltinKernels, segment_sum_compiles) {
  const std::string source = SegmentSumSource(DType::kBF16, DType::kBF16, DType::kI32, 8, false);
  EXPECT_FALSE(CompileCuda(source, GetParam(), "segment_sum").empty());
}

TEST_P(BuiltinKernels, short_attention_compiles) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const std::string source = ShortAttentionSource(dtype, 128, 32, dtype == DType::kBF16);
    EXPECT_FALSE(CompileCuda(source, GetParam(), "short_attention").empty());
  }
}

TEST_P(BuiltinKernels, attention_clear_compiles) {
  EXPECT_FALSE(CompileCuda(kAttentionClearSource, GetParam(), "attention_clear").empty());
}

TEST(BuiltinKernelSources, segment_sum_compiles_for_every_dtype) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kI32, DType::kU32}) {
    const int wide = 16 / ByteWidth(dtype);
    const std::string source = SegmentSumSource(dtype, dtype, DType::kU32, wide, false);
    EXPECT_FALSE(CompileCuda(source, 90, "segment_sum").empty()) << Name(dtype);
  }
  const std::string scalar = SegmentSumSource(DType::kBF16, DType::kF32, DType::kI64, 1, true);
  EXPECT_FALSE(CompileCuda(scalar, 90, "segment_sum").empty());
}

INSTANTIATE_TEST_SUITE_P(Architectures, BuiltinKernels, testing::Values(80, 86, 89, 90, 100),
                         testing::PrintToStringParamName());

// Else they could not be launched early.
TEST(BuiltinKernelSources, wait_for_what_is_ahead) {
  EXPECT_TRUE(EveryKernelWaits(kSortSource));
  EXPECT_TRUE(EveryKernelWaits(kAttentionClearSource));
  EXPECT_TRUE(EveryKernelWaits(SegmentSumSource(DType::kF32, DType::kF32, DType::kI32, 4, true)));
  EXPECT_TRUE(EveryKernelWaits(ShortAttentionSource(DType::kBF16, 64, 64, true)));
  EXPECT_FALSE(
      EveryKernelWaits(std::string(kSortSource) + "extern \"C\" __global__ void k() {}\n"));
  EXPECT_FALSE(EveryKernelWaits("extern \"C\" __global__ void k() {}\n"));
}

TEST(BuiltinKernelSources, refuse_dtypes_they_lack) {
  EXPECT_THROW(SegmentSumSource(DType::kU8, DType::kU8, DType::kI32, 1, false), Error);
  EXPECT_THROW(SegmentSumSource(DType::kF64, DType::kF32, DType::kI32, 1, false), Error);
}

}  // namespace
}  // namespace stator
#endif
