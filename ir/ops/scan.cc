// Running folds along an axis.
#include "ir/ops/helpers.h"
#include "ir/ops/ops.h"

namespace stator {
namespace {

// One element after the other in an accumulator of type `Acc`.
template <typename Acc, typename Element>
void ScanLines(const std::vector<Element>& x, const Dims& shape, int axis, bool reverse,
               bool exclusive, Tensor& out) {
  const int64_t n = shape[axis], stride = DenseStrides(shape)[axis];
  Dims others = shape;
  others[axis] = n == 0 ? 0 : 1;
  const Dims dense = DenseStrides(shape);
  for (Index it(others); !it.done(); it.Next()) {
    const int64_t base = it.Dot(dense);
    Acc sum = 0;
    for (int64_t j = 0; j < n; ++j) {
      const int64_t k = base + (reverse ? n - 1 - j : j) * stride;
      const Acc next = sum + static_cast<Acc>(x[k]);
      out.Put(k, static_cast<Element>(exclusive ? sum : next));
      sum = next;
    }
  }
}

}  // namespace

void AddScanOps(OpRegistry& ops) {
  // Strictly sequential, starting from 0, from the front (`reverse`: from the back), in an f32
  // accumulator (f64 for f64; integers wrap); each result is the accumulator rounded. `exclusive`
  // leaves out the element itself.
  ops.Add({
      .name = "cumsum",
      .op_class = OpClass::kScan,
      .operands = {{"x", TypeSet::kAnyNumber}},
      .attrs = {{"axis", int64_t{0}, true}, {"reverse", false}, {"exclusive", false}},
      .infer =
          [](const OpView& op) {
            op.Axis("axis");
            return Types{op.type(0)};
          },
      .reduce = ReduceKind::kSum,
      // dx[i] = sum of dy[j] over the j that x[i] reaches: the same scan, run the other way.
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        return {b.Create1("cumsum", {dy[0]},
                          {{"axis", op.Int("axis")},
                           {"reverse", !op.Bool("reverse")},
                           {"exclusive", op.Bool("exclusive")}})};
      },
      .reference =
          [](const OpView& op, Operands in, Results out) {
            const int axis = op.Axis("axis");
            const bool reverse = op.Bool("reverse"), exclusive = op.Bool("exclusive");
            const Dims& shape = in[0]->type.shape;
            if (in[0]->type.dtype == DType::kF64) {
              ScanLines<double>(in[0]->f, shape, axis, reverse, exclusive, out[0]);
            } else if (IsFloat(in[0]->type.dtype)) {
              ScanLines<float>(in[0]->f, shape, axis, reverse, exclusive, out[0]);
            } else {
              ScanLines<uint64_t>(in[0]->i, shape, axis, reverse, exclusive, out[0]);
            }
          },
      .samples = {"(f32[4,8]) {axis=1}", "(f32[5,3]) {axis=0, reverse=true}",
                  "(bf16[2,7,3]) {axis=1, exclusive=true}", "(i32[9]) {axis=-1}",
                  "(f32[3,1]) {axis=1, reverse=true, exclusive=true}", "(f32[0,4]) {axis=0}"},
  });
}

}  // namespace stator
