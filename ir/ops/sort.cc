// Stable sort and top-k. NaN comes last in either direction.
#include "ir/ops/helpers.h"
#include "ir/ops/ops.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace stator {
namespace {

// Whether a comes before b: numbers by value, NaN after every number.
bool Before(double a, double b, bool descending) {
  if (a != a || b != b) return a == a && b != b;
  return descending ? a > b : a < b;
}
bool Before(int64_t a, int64_t b, bool descending) { return descending ? a > b : a < b; }

// The first `keep` of each sorted line.
void SortReference(const Tensor& x, int axis, bool descending, int64_t keep, Results out) {
  const Dims& shape = x.type.shape;
  const int64_t n = shape[axis];
  const Dims from = DenseStrides(shape), to = DenseStrides(out[0].type.shape);
  Dims lines = shape;
  lines[axis] = n == 0 ? 0 : 1;
  for (Index it(lines); !it.done(); it.Next()) {
    const auto at = [&](int64_t j) { return it.Dot(from) + j * from[axis]; };
    std::vector<int64_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return x.f.empty() ? Before(x.i[at(a)], x.i[at(b)], descending)
                         : Before(x.f[at(a)], x.f[at(b)], descending);
    });
    for (int64_t j = 0; j < keep; ++j) {
      const int64_t k = it.Dot(to) + j * to[axis];
      CopyElement(x, at(order[j]), out[0], k);
      out[1].SetInt(k, order[j]);
    }
  }
}

Types InferSort(const OpView& op) {
  const Type& x = op.type(0);
  if (x.shape[op.Axis("axis")] > std::numeric_limits<int32_t>::max()) {
    BadOperand(op, "the axis is too long for i32 indices", x);
  }
  return {x, {DType::kI32, x.shape}};
}

// Each cotangent goes back to the position its value came from.
Values SortGrad(Builder& b, const OpView& op, const Values& dy) {
  if (!dy[0]) return {Value{}};
  return {ScatterAlong(b, dy[0], op.out(1), op.type(0), op.Axis("axis"))};
}

double SortFlops(const OpView& op) {
  double comparisons = 1;  // log2 of the line
  for (int64_t n = op.type(0).shape[op.Axis("axis")]; n > 2; n /= 2) ++comparisons;
  return comparisons * static_cast<double>(op.type(0).NumElements());
}

}  // namespace

void AddSortOps(OpRegistry& ops) {
  // (values, their positions before). Equal elements keep their order, ascending or descending.
  ops.Add({
      .name = "sort",
      .op_class = OpClass::kSort,
      .operands = {{"x", TypeSet::kAnyNumber}},
      .attrs = {{"axis", int64_t{-1}}, {"descending", false}},
      .infer = InferSort,
      .grad = SortGrad,
      .reference =
          [](const OpView& op, Operands in, Results out) {
            const int axis = op.Axis("axis");
            SortReference(*in[0], axis, op.Bool("descending"), in[0]->type.shape[axis], out);
          },
      .flops = SortFlops,
      .samples = {"(f32[4,9])", "(f32[5,3]) {axis=0, descending=true}", "(bf16[2,33])", "(i32[17])",
                  "(f32[3,1])", "(f32[0,4])", "(u32[6]) {descending=true}"},
  });
  // The k largest, largest first; of equal ones the earlier. NaN only when numbers run out.
  ops.Add({
      .name = "top_k",
      .op_class = OpClass::kComposite,
      .operands = {{"x", TypeSet::kAnyNumber}},
      .attrs = {{"k", int64_t{1}, true}, {"axis", int64_t{-1}}},
      .infer =
          [](const OpView& op) {
            Types types = InferSort(op);
            int64_t& n = types[0].shape[op.Axis("axis")];
            if (op.Int("k") < 0 || op.Int("k") > n) {
              BadOperand(op, StrCat("no ", op.Int("k"), " elements along axis ", op.Int("axis")),
                         op.type(0));
            }
            n = op.Int("k");
            types[1].shape = types[0].shape;
            return types;
          },
      .expand = [](Builder& b, const OpView& op) -> Values {
        const int axis = op.Axis("axis");
        const Values sorted =
            b.Create("sort", {op.in(0)}, {{"axis", int64_t{axis}}, {"descending", true}});
        return {b.SliceAxis(sorted[0], axis, 0, op.Int("k")),
                b.SliceAxis(sorted[1], axis, 0, op.Int("k"))};
      },
      .grad = SortGrad,
      .reference =
          [](const OpView& op, Operands in, Results out) {
            SortReference(*in[0], op.Axis("axis"), true, op.Int("k"), out);
          },
      .flops = SortFlops,
      .samples = {"(f32[4,9]) {k=3}", "(bf16[5,2]) {k=1, axis=0}", "(i32[7]) {k=7}",
                  "(f32[3]) {k=0}"},
  });
}

}  // namespace stator
