#include "ir/reduce_tree.h"
#include "tests/gpu/plan_maker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace stator::gpu_test {
namespace {

// The column rule, as reduce_tree.h says it.
template <typename Acc>
Acc ColumnFold(std::vector<Acc> values) {
  const auto add = [](Acc a, Acc b) { return static_cast<Acc>(a + b); };
  while (values.size() > 1) {
    const int64_t n = static_cast<int64_t>(values.size()), chunk = ColumnChunk(n);
    std::vector<Acc> next;
    for (int64_t begin = 0; begin < n; begin += chunk) {
      Acc lanes[kColumnLanes];
      next.push_back(FoldLanes<Acc>(
          std::min(chunk, n - begin), kColumnLanes, lanes,
          [&](int64_t k) { return values[static_cast<size_t>(begin + k)]; }, add));
    }
    values = std::move(next);
  }
  return values[0];
}

template <typename Acc>
std::vector<double> Reference(const std::vector<double>& updates, const std::vector<double>& ids,
                              int64_t rows, int64_t width, DType out) {
  std::vector<std::vector<int64_t>> hits(static_cast<size_t>(rows));
  for (size_t i = 0; i < ids.size(); ++i)
    hits[static_cast<size_t>(ids[i])].push_back(static_cast<int64_t>(i));
  std::vector<double> sums(static_cast<size_t>(rows * width), 0);
  for (int64_t r = 0; r < rows; ++r) {
    const auto& mine = hits[static_cast<size_t>(r)];
    if (mine.empty()) continue;
    for (int64_t c = 0; c < width; ++c) {
      std::vector<Acc> values;
      for (const int64_t i : mine)
        values.push_back(static_cast<Acc>(updates[static_cast<size_t>(i * width + c)]));
      const double sum = static_cast<double>(ColumnFold<Acc>(values));
      sums[static_cast<size_t>(r * width + c)] = IsFloat(out) ? RoundFloat(out, sum) : sum;
    }
  }
  return sums;
}

// Few ids that come often, many that come seldom; one of them takes a third of all.
std::vector<double> SkewedIds(int64_t n, int64_t rows, uint64_t seed) {
  std::vector<double> ids = Random(DType::kF32, n, seed);
  for (double& id : ids) {
    const double u = std::abs(id);
    id = u < 0.33 ? static_cast<double>(rows / 2)
                  : std::floor(static_cast<double>(rows) * u * u * u);
    id = std::min(id, static_cast<double>(rows - 1));
  }
  return ids;
}

void CheckSums(DType in, DType out, DType id_type, int64_t n, int64_t width, int64_t rows,
               int64_t padding = 0) {
  SCOPED_TRACE(StrCat(Name(in), " to ", Name(out), " [", n, ",", width, "] into ", rows));
  const std::vector<double> ids = SkewedIds(n, rows, 3);
  std::vector<double> updates =
      IsFloat(in) ? Random(in, n * width, 4) : RandomInts(n * width, 1000, 4);
  std::vector<double> stored;
  for (int64_t i = 0; i < n; ++i) {
    stored.insert(stored.end(), updates.begin() + i * width, updates.begin() + (i + 1) * width);
    stored.insert(stored.end(), static_cast<size_t>(padding), 7);
  }
  PlanMaker plan("segment_sum");
  SegmentSumCall call;
  const TensorRef flat = plan.Input("updates", in, {n * (width + padding)}, stored);
  call.updates = ViewOf(flat, 0, {n, width}, {width + padding, 1});
  call.indices = plan.Input("ids", id_type, {n}, ids);
  call.out = plan.Output("out", out, {rows, width});
  plan.Step(FillCall{call.out.buffer, call.out.type.Bytes(), 0xff}, "poison");
  plan.Step(call);
  const std::vector<char> first = plan.Run().at("out");
  const std::vector<double> want =
      in == DType::kF64   ? Reference<double>(updates, ids, rows, width, out)
      : in == DType::kI32 ? Reference<int32_t>(updates, ids, rows, width, out)
                          : Reference<float>(updates, ids, rows, width, out);
  const std::vector<char> expected = ToBytes(out, want);
  ASSERT_EQ(first.size(), expected.size());
  EXPECT_EQ(std::memcmp(first.data(), expected.data(), first.size()), 0)
      << "relative error " << RelativeError(FromBytes(out, first), want);
}

TEST(SegmentSum, equals_the_rule_to_the_bit) {
  STATOR_NEEDS_GPU();
  const DType f32 = DType::kF32, bf16 = DType::kBF16, i32 = DType::kI32;
  CheckSums(bf16, bf16, i32, 20000, 96, 500);  // chunks of rows with thousands
  CheckSums(f32, f32, i32, 9000, 64, 3000);
  CheckSums(bf16, f32, i32, 3000, 40, 100);
  CheckSums(DType::kF16, DType::kF16, i32, 600, 24, 7);
  CheckSums(DType::kF64, DType::kF64, DType::kI64, 700, 6, 11);
  CheckSums(i32, i32, DType::kU32, 700, 5, 3);
  CheckSums(bf16, bf16, i32, 2048, 264, 4);  // small in all, with chunks
  CheckSums(f32, f32, i32, 2049, 132, 4);    // not small any more
  CheckSums(f32, f32, i32, 5, 4, 3000);
}

TEST(SegmentSum, takes_odd_widths_strides_and_sizes) {
  STATOR_NEEDS_GPU();
  const DType f32 = DType::kF32, bf16 = DType::kBF16, i32 = DType::kI32;
  CheckSums(bf16, bf16, i32, 1000, 33, 10);
  CheckSums(f32, f32, i32, 5000, 1, 40);
  CheckSums(bf16, bf16, i32, 1000, 32, 10, 8);
  CheckSums(bf16, bf16, i32, 1000, 32, 10, 3);
  CheckSums(f32, f32, i32, 70000, 4, 2);
  CheckSums(f32, f32, i32, 1, 4, 1);
  CheckSums(f32, f32, i32, 8, 4, 1);
  CheckSums(f32, f32, i32, 9, 4, 1);
  CheckSums(f32, f32, i32, 0, 4, 5);
}

}  // namespace
}  // namespace stator::gpu_test
