// Comparing tensors in tests.
#pragma once

#include "ir/base/str.h"
#include "ir/tensor.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stator {

// Relative tolerance of results in `dtype`: a few units in the last place.
inline double Tolerance(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 1e-12;
    case DType::kF32:
      return 1e-5;
    case DType::kF16:
      return 2e-3;
    case DType::kBF16:
      return 1.6e-2;
    default:
      return 0.25;
  }
}

// Equal NaN, infinities and integers; floats to `tolerance` relative to the larger of 1 and |want|.
inline ::testing::AssertionResult Near(const Tensor& got, const Tensor& want, double tolerance) {
  if (got.type != want.type) {
    return ::testing::AssertionFailure() << got.type.ToString() << " vs " << want.type.ToString();
  }
  for (int64_t k = 0; k < want.size(); ++k) {
    const double a = got.Get(k), b = want.Get(k);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (IsFloat(want.type.dtype) && std::fabs(a - b) <= tolerance * std::fmax(1, std::fabs(b)))
      continue;
    return ::testing::AssertionFailure()
           << "element " << k << " of " << want.type.ToString() << ": " << FormatDouble(a)
           << ", expected " << FormatDouble(b);
  }
  return ::testing::AssertionSuccess();
}

inline ::testing::AssertionResult Same(const Tensor& got, const Tensor& want) {
  return Near(got, want, 0);
}

// A tensor of the given elements.
inline Tensor MakeTensor(DType dtype, const Dims& shape, const std::vector<double>& values) {
  Tensor t(Type{dtype, shape});
  for (int64_t k = 0; k < t.size(); ++k) t.Set(k, values[k]);
  return t;
}

}  // namespace stator
