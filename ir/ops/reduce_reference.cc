#include "ir/ops/reduce_reference.h"

#include "ir/base/error.h"
#include "ir/reduce_tree.h"

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

namespace stator {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

template <typename T>
T CombineAs(ReduceKind kind, T a, T b) {
  switch (kind) {
    // Integers wrap.
    case ReduceKind::kSum:
      if constexpr (std::is_integral_v<T>) return static_cast<T>(uint64_t(a) + uint64_t(b));
      return a + b;
    case ReduceKind::kProd:
      if constexpr (std::is_integral_v<T>) return static_cast<T>(uint64_t(a) * uint64_t(b));
      return a * b;
    case ReduceKind::kMax:
      return a != a ? a : (b != b ? b : (a > b ? a : b));  // NaN wins
    case ReduceKind::kMin:
      return a != a ? a : (b != b ? b : (a < b ? a : b));
    case ReduceKind::kAny:
      return a != T(0) || b != T(0) ? T(1) : T(0);
    case ReduceKind::kAll:
      return a != T(0) && b != T(0) ? T(1) : T(0);
    case ReduceKind::kLogSumExp:
    case ReduceKind::kNone:
      break;
  }
  STATOR_CHECK(false, "not a fold of pairs");
  return a;
}

// Identities, for empty reductions only.
double FloatIdentity(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kMax:
    case ReduceKind::kLogSumExp:
      return -kInf;
    case ReduceKind::kMin:
      return kInf;
    case ReduceKind::kProd:
    case ReduceKind::kAll:
      return 1;
    default:
      return 0;
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
    case ReduceKind::kAll:
      return 1;
    default:
      return 0;
  }
}

// log(sum(exp(x))) in f64, whatever the order.
template <typename Get>
double LogSumExpOf(int64_t m, const Get& get) {
  double largest = -kInf, sum = 0;
  for (int64_t k = 0; k < m; ++k) largest = std::fmax(largest, get(k));
  if (std::isinf(largest)) largest = largest > 0 ? std::numeric_limits<double>::max() : 0;
  for (int64_t k = 0; k < m; ++k) sum += std::exp(get(k) - largest);
  return std::log(sum) + largest;
}

// One chunk of at most one level, lanes as in reduce_tree.h.
template <typename Acc, typename Get>
Acc FoldChunk(int64_t m, ReduceKind kind, bool row, const Get& get) {
  if (kind == ReduceKind::kLogSumExp) return static_cast<Acc>(LogSumExpOf(m, get));
  std::vector<Acc> lanes(kRowLanes);
  return FoldLanes<Acc>(m, row ? kRowLanes : kColumnLanes, lanes.data(), get,
                        [kind](Acc a, Acc b) { return CombineAs<Acc>(kind, a, b); });
}

// Folds `line` by blocks of `block(n)` until one element is left. `Acc` is the accumulator type.
template <typename Acc>
Acc FoldLine(std::vector<Acc> line, ReduceKind kind, bool row, int64_t rows = 1) {
  do {
    const auto n = static_cast<int64_t>(line.size());
    const int64_t block = row ? RowBlock(rows) : ColumnChunk(n);
    std::vector<Acc> partials;
    for (int64_t begin = 0; begin < n; begin += block) {
      const int64_t m = std::min(block, n - begin);
      partials.push_back(FoldChunk<Acc>(m, kind, row, [&](int64_t k) { return line[begin + k]; }));
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
      out[o * inner + i] =
          static_cast<Element>(FoldLine<Acc>(std::move(line), kind, inner == 1, outer));
    }
  }
  return out;
}

template <typename Acc, typename Element>
void FoldPlane(const std::vector<Element>& x, int64_t m, int64_t inner, ReduceKind kind,
               std::vector<Element>& out) {
  for (size_t k = 0; k < out.size(); ++k) {
    const int64_t o = static_cast<int64_t>(k) / inner, i = static_cast<int64_t>(k) % inner;
    out[k] = static_cast<Element>(FoldChunk<Acc>(m, kind, inner == 1, [&](int64_t j) {
      return static_cast<Acc>(x[(o * m + j) * inner + i]);
    }));
  }
}

}  // namespace

ReduceKind ParseReduceKind(const std::string& name) {
  static constexpr std::pair<const char*, ReduceKind> kKinds[] = {
      {"sum", ReduceKind::kSum},
      {"prod", ReduceKind::kProd},
      {"max", ReduceKind::kMax},
      {"min", ReduceKind::kMin},
      {"any", ReduceKind::kAny},
      {"all", ReduceKind::kAll},
      {"logsumexp", ReduceKind::kLogSumExp}};
  for (const auto& [known, kind] : kKinds) {
    if (name == known) return kind;
  }
  Fail(ErrorCode::kInvalidArgument, "unknown fold kind ", name);
}

double ReduceIdentity(ReduceKind kind, DType dtype) {
  return IsFloat(dtype) ? FloatIdentity(kind) : static_cast<double>(IntIdentity(kind, dtype));
}

Tensor FoldOneChunk(const Tensor& x, ReduceKind kind) {
  const Dims& s = x.type.shape;
  Tensor out(Type{x.type.dtype, {s[0], 1, s[2]}});
  if (x.type.dtype == DType::kF64) {
    FoldPlane<double>(x.f, s[1], s[2], kind, out.f);
  } else if (IsFloat(x.type.dtype)) {
    FoldPlane<float>(x.f, s[1], s[2], kind, out.f);
  } else {
    FoldPlane<int64_t>(x.i, s[1], s[2], kind, out.i);
    for (int64_t& v : out.i) v = WrapInteger(x.type.dtype, v);
  }
  return out;
}

Tensor ColumnReference(const Tensor& x, ReduceKind kind) {
  const int64_t n = x.type.shape[0], inner = x.type.shape[1];
  Tensor out(Type{x.type.dtype, {1, inner}});
  const auto fold = [&]<typename Acc, typename Element>(Acc, const std::vector<Element>& from,
                                                        int64_t i) {
    std::vector<Acc> line(n);
    for (int64_t k = 0; k < n; ++k) line[k] = static_cast<Acc>(from[k * inner + i]);
    return static_cast<Element>(FoldLine<Acc>(std::move(line), kind, /*row=*/false));
  };
  for (int64_t i = 0; i < inner; ++i) {
    if (x.type.dtype == DType::kF64) {
      out.Set(i, fold(double{}, x.f, i));
    } else if (IsFloat(x.type.dtype)) {
      out.Set(i, fold(float{}, x.f, i));
    } else {
      out.SetInt(i, fold(int64_t{}, x.i, i));
    }
  }
  return out;
}

std::vector<ReducedRun> ReducedRuns(Dims shape, const Dims& axes) {
  const int rank = static_cast<int>(shape.size());
  std::vector<bool> reduced(shape.size(), false);
  for (const int64_t axis : axes) reduced[NormalizeAxis(axis, rank, "reduce")] = true;
  std::vector<ReducedRun> runs;
  for (int end = rank - 1; end >= 0;) {
    if (!reduced[end] || shape[end] == 1) {
      --end;
      continue;
    }
    int begin = end;
    while (begin > 0 && (reduced[begin - 1] || shape[begin - 1] == 1)) --begin;
    ReducedRun run;
    for (int k = 0; k < begin; ++k) run.outer *= shape[k];
    for (int k = begin; k <= end; ++k) run.n *= shape[k], shape[k] = 1;
    for (int k = end + 1; k < rank; ++k) run.inner *= shape[k];
    runs.push_back(run);
    end = begin - 1;
  }
  return runs;
}

Tensor ReduceReference(const Tensor& x, const Dims& axes, ReduceKind kind) {
  const DType dtype = x.type.dtype;
  Tensor at = x;
  for (const auto& [outer, n, inner] : ReducedRuns(x.type.shape, axes)) {
    if (dtype == DType::kF64) {
      at.f = FoldRun<double>(at.f, outer, n, inner, kind, FloatIdentity(kind));
    } else if (IsFloat(dtype)) {
      at.f = FoldRun<float>(at.f, outer, n, inner, kind, FloatIdentity(kind));
    } else {
      at.i = FoldRun<int64_t>(at.i, outer, n, inner, kind, IntIdentity(kind, dtype));
    }
  }
  Dims shape = x.type.shape;
  for (const int64_t axis : axes) shape[NormalizeAxis(axis, x.type.rank(), "reduce")] = 1;
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
