#include "tests/gpu/plan_maker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace stator::gpu_test {
namespace {

std::vector<double> Keys(DType dtype, int64_t n, uint64_t seed) {
  if (!IsFloat(dtype)) {
    std::vector<double> keys = RandomInts(n, dtype == DType::kU8 ? 256 : 1000, seed);
    if (dtype == DType::kI32) {
      for (double& k : keys) k -= 500;
    }
    return keys;
  }
  std::vector<double> keys = Random(dtype, n, seed);
  // Ties, both zeros, infinities and NaN of both signs.
  for (int64_t i = 0; i < n; i += 7) keys[static_cast<size_t>(i)] = i % 2 == 0 ? 0.0 : -0.0;
  for (int64_t i = 3; i < n; i += 11) keys[static_cast<size_t>(i)] = 0.5;
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = INFINITY;
  const double odd[] = {nan, -nan, inf, -inf};
  for (int64_t i = 0; i < std::min<int64_t>(4, n / 3); ++i)
    keys[static_cast<size_t>(2 * i + 1)] = odd[i];
  return keys;
}

void CheckSort(DType dtype, int64_t rows, int64_t n, bool descending, bool with_values) {
  SCOPED_TRACE(StrCat(Name(dtype), " [", rows, ",", n, "]", descending ? " descending" : ""));
  const std::vector<double> keys = Keys(dtype, rows * n, static_cast<uint64_t>(rows * n));
  PlanMaker plan("sort");
  SortCall call;
  call.keys = plan.Input("keys", dtype, {rows, n}, keys);
  if (with_values) call.values = plan.Output("values", dtype, {rows, n});
  call.indices = plan.Output("indices", DType::kI32, {rows, n});
  call.descending = descending;
  plan.Step(call);
  const OutputMap out = plan.Run();
  const std::vector<double> indices = FromBytes(DType::kI32, out.at("indices"));
  std::vector<double> want, values;
  for (int64_t r = 0; r < rows; ++r) {
    const double* row = keys.data() + r * n;
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const double x = row[a], y = row[b];
      if (std::isnan(x) || std::isnan(y)) return !std::isnan(x) && std::isnan(y);
      return descending ? x > y : x < y;
    });
    for (const int64_t i : order) {
      want.push_back(static_cast<double>(i));
      values.push_back(row[i]);
    }
  }
  ASSERT_EQ(indices, want);
  if (with_values) {
    EXPECT_EQ(out.at("values"), ToBytes(dtype, values));
  }
}

TEST(Sort, is_stable_with_nan_last_in_every_dtype) {
  STATOR_NEEDS_GPU();
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI32, DType::kU32,
                            DType::kU16, DType::kU8}) {
    for (const bool descending : {false, true}) CheckSort(dtype, 3, 5000, descending, true);
  }
}

TEST(Sort, takes_any_number_and_length_of_rows) {
  STATOR_NEEDS_GPU();
  for (const int64_t n : {1, 2, 31, 4096, 4097, 70001}) CheckSort(DType::kF32, 1, n, false, true);
  CheckSort(DType::kF32, 1000, 33, true, false);
  CheckSort(DType::kI32, 0, 5, false, true);
  CheckSort(DType::kI32, 4, 0, false, true);
}

}  // namespace
}  // namespace stator::gpu_test
