#include "ir/type.h"

#include "ir/base/error.h"

#include <algorithm>

namespace stator {

int64_t NumElements(const Dims& shape) {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  return n;
}

int64_t Type::NumElements() const { return stator::NumElements(shape); }

std::string Type::ToString() const { return StrCat(Name(dtype), FormatDims(shape)); }

Dims DenseStrides(const Dims& shape) {
  Dims strides(shape.size());
  int64_t s = 1;
  for (int i = static_cast<int>(shape.size()) - 1; i >= 0; --i) {
    strides[i] = s;
    s *= shape[i];
  }
  return strides;
}

int NormalizeAxis(int64_t axis, int rank, const std::string& what) {
  const int64_t a = axis < 0 ? axis + rank : axis;
  if (a < 0 || a >= rank) {
    Fail(ErrorCode::kInvalidArgument, what, ": axis ", axis, " is out of range for rank ", rank);
  }
  return static_cast<int>(a);
}

Dims BroadcastShapes(const Dims& a, const Dims& b, const std::string& what) {
  const size_t rank = std::max(a.size(), b.size());
  Dims out(rank);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t da = i < rank - a.size() ? 1 : a[i - (rank - a.size())];
    const int64_t db = i < rank - b.size() ? 1 : b[i - (rank - b.size())];
    if (da != db && da != 1 && db != 1) {
      Fail(ErrorCode::kInvalidArgument, what, ": shapes ", a, " and ", b, " do not broadcast");
    }
    out[i] = da == 1 ? db : da;
  }
  return out;
}

}  // namespace stator
