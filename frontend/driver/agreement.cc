#include "frontend/driver/agreement.h"

#include "codegen/scalar.h"
#include "ir/base/str.h"
#include "ir/views.h"

#include <algorithm>
#include <cmath>

namespace stator {
namespace {

constexpr double kLibraryFactor = 4;
constexpr double kSmallestScale =
    1e-3;  // tensors of smaller elements are compared as if of this size

}  // namespace

bool IsExact(const Node& node) {
  if (JoinedCall(node) != nullptr) return false;
  switch (node.op_class()) {
    case OpClass::kElementwise:
      return !IsExpensive(node) && !node.Is("fma");
    case OpClass::kReduce:
      return !IsExpensive(node);
    case OpClass::kMovement:
    case OpClass::kGather:
    case OpClass::kSort:
    case OpClass::kRandom:
    case OpClass::kScatter:
    case OpClass::kScan:
    case OpClass::kSource:
      return true;
    default:
      return false;
  }
}

double ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 1e-12;
    case DType::kF32:
      return 2e-6;
    case DType::kF16:
      return 2e-3;
    case DType::kBF16:
      return 1.6e-2;
    default:
      return 0.2;
  }
}

double ToleranceOf(const Node& node) {
  double tolerance = 0;
  const auto note = [&](DType d) {
    if (IsFloat(d)) tolerance = std::max(tolerance, ToleranceOf(d));
  };
  for (const Value& v : node.operands()) {
    if (v) note(v.dtype());
  }
  for (int i = 0; i < node.num_results(); ++i) note(node.type(i).dtype);
  const bool library =
      node.op_class() == OpClass::kContraction || node.op_class() == OpClass::kAttention;
  if (const Node* call = JoinedCall(node)) {
    return std::max(tolerance * kLibraryFactor, ToleranceOf(*call));
  }
  return tolerance * (library ? kLibraryFactor : 1);
}

std::string Difference::ToString() const {
  if (count == 0) return "no difference";
  return StrCat(count, " of ", size, " elements differ; element ", first, " is ", got, ", not ",
                want, "; largest difference ", largest, " of the largest element");
}

Difference Compare(const Tensor& got, const Tensor& want, double tolerance) {
  double scale = 0;
  for (int64_t k = 0; k < want.size(); ++k) {
    if (std::isfinite(want.Get(k))) scale = std::max(scale, std::fabs(want.Get(k)));
  }
  scale = std::max(scale, kSmallestScale);
  Difference d;
  d.size = want.size();
  const bool integers = want.f.empty();
  for (int64_t k = 0; k < want.size(); ++k) {
    if (integers && got.i[k] == want.i[k]) continue;
    const double a = got.Get(k), b = want.Get(k);
    if (!integers && (a == b || (std::isnan(a) && std::isnan(b)))) continue;
    const double relative =
        std::isfinite(a) && std::isfinite(b) ? std::fabs(a - b) / scale : INFINITY;
    d.largest = std::max(d.largest, relative);
    if (relative <= tolerance) continue;
    if (d.count++ == 0) d.first = k, d.got = a, d.want = b;
  }
  return d;
}

}  // namespace stator
