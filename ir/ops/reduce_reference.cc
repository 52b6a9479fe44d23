#include "ir/ops/reduce_reference.h"

#include <cmath>
#include <limits>
#include <vector>

#include "ir/base/error.h"
#include "ir/reduce_tree.h"

namespace stator {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

template <typename T>
T CombineAs(ReduceKind kind, T a, T b) {
  switch (kind) {
    case ReduceKind::kSum: return a + b;
    case ReduceKind::kProd: return a * b;
    case ReduceKind::kMax: return a != a ? a : (b != b ? b : (a > b ? a : b));  // NaN wins
    case ReduceKind::kMin: return a != a ? a : (b != b ? b : (a < b ? a : b));
    case ReduceKind::kAny: return a != T(0) || b != T(0) ? T(1) : T(0);
    case ReduceKind::kAll: return a != T(0) && b != T(0) ? T(1) : T(0);
    case ReduceKind::kNone: break;
  }
  STATOR_CHECK(false, "not a fold");
  return a;
}

// Identities, for empty reductions only.
double FloatIdentity(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kMax: return -kInf;
    case ReduceKind::kMin: return kInf;
    case ReduceKind::kProd:
    case ReduceKind::kAll: return 1;
    default: return 0;
  }
}

int64_t IntIdentity(ReduceKind kind, DType dtype) {
  const bool wide = dtype == DType::kI64;
  switch (kind) {
    case ReduceKind::kMax:
      return wide ? std::numeric_limits<int64_t>::min()
                  : (dtype == DType::kI32 ? std::numeric_limits<int32_t>::min() : 0);
    case ReduceKind::kMin:
      return wide ? std::numeric_limits<int64_t>::max()
                  : (dtype == DType::kI32 ? std::numeric_limits<int32_t>::max()
                                          : WrapInteger(dtype, -1));
    case ReduceKind::kProd:
    case ReduceKind::kAll: return 1;
    default: return 0;
  }
}

// Folds `line` by blocks of `block(n)` until one element is left. `Acc` is the accumulator type.
template <typename Acc>
Acc FoldLine(std::vector<Acc> line, ReduceKind kind, bool row) {
  const auto combine = [kind](Acc a, Acc b) { return CombineAs<Acc>(kind, a, b); };
  std::vector<Acc> lanes(kRowLanes);
  do {
    const auto n = static_cast<int64_t>(line.size());
    const int64_t block = row ? kRowBlock : ColumnChunk(n);
    std::vector<Acc> partials;
    for (int64_t begin = 0; begin < n; begin += block) {
      const int64_t m = std::min(block, n - begin);
      partials.push_back(FoldLanes<Acc>(
          m, row ? kRowLanes : kColumnLanes, lanes.data(),
          [&](int64_t k) { return line[begin + k]; }, combine));
    }
    line = std::move(partials);
  } while (line.size() > 1);
  return line[0];
}

// One run of adjacent axes, seen as [outer, n, inner].
template <typename Acc, typename Element>
std::vector<Element> FoldRun(const std::vector<Element>& x, int64_t outer, int64_t n, int64_t inner,
                             ReduceKind kind, Element identity) {
  std::vector<Element> out(outer * inner, identity);
  if (n == 0) return out;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      std::vector<Acc> line(n);
      for (int64_t k = 0; k < n; ++k) line[k] = static_cast<Acc>(x[(o * n + k) * inner + i]);
      out[o * inner + i] = static_cast<Element>(FoldLine<Acc>(std::move(line), kind, inner == 1));
    }
  }
  return out;
}

}  // namespace

Tensor ReduceReference(const Tensor& x, const Dims& axes, ReduceKind kind) {
  const int rank = x.type.rank();
  std::vector<bool> reduced(rank, false);
  for (const int64_t axis : axes) reduced[NormalizeAxis(axis, rank, "reduce")] = true;
  Dims shape = x.type.shape;
  Tensor at = x;
  // Innermost run first; axes of size 1 join whichever run they touch.
  for (int end = rank - 1; end >= 0;) {
    if (!reduced[end] || shape[end] == 1) {
      --end;
      continue;
    }
    int begin = end;
    while (begin > 0 && (reduced[begin - 1] || shape[begin - 1] == 1)) --begin;
    int64_t outer = 1, n = 1, inner = 1;
    for (int k = 0; k < begin; ++k) outer *= shape[k];
    for (int k = begin; k <= end; ++k) n *= shape[k], shape[k] = 1;
    for (int k = end + 1; k < rank; ++k) inner *= shape[k];
    const DType dtype = x.type.dtype;
    if (dtype == DType::kF64) {
      at.f = FoldRun<double>(at.f, outer, n, inner, kind, FloatIdentity(kind));
    } else if (IsFloat(dtype)) {
      at.f = FoldRun<float>(at.f, outer, n, inner, kind, FloatIdentity(kind));
    } else {
      at.i = FoldRun<int64_t>(at.i, outer, n, inner, kind, IntIdentity(kind, dtype));
    }
    end = begin - 1;
  }
  Tensor out(Type{x.type.dtype, shape});
  for (int64_t k = 0; k < out.size(); ++k) {
    if (at.f.empty()) {
      out.SetInt(k, at.i[k]);
    } else {
      out.Set(k, at.f[k]);
    }
  }
  return out;
}

}  // namespace stator
