// Composite reductions: mean, variance, logsumexp, argmax. Reduced axes keep size 1.
#include "ir/ops/helpers.h"
#include "ir/ops/ops.h"
#include "ir/ops/reduce_reference.h"

#include <limits>

namespace stator {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Types InferStatistic(const OpView& op) {
  Type type = op.type(0);
  const std::vector<bool> reduced = AxisMask(op.Ints("axes"), type.rank(), op.Where());
  for (int k = 0; k < type.rank(); ++k) {
    if (reduced[k]) type.shape[k] = 1;
  }
  return {type};
}

// Elements that fold into one result.
double CountOver(const OpView& op) {
  const Dims& shape = op.type(0).shape;
  double n = 1;
  for (const int64_t axis : op.Ints("axes")) {
    n *= static_cast<double>(shape[NormalizeAxis(axis, op.type(0).rank(), op.Where())]);
  }
  return n;
}

// NaN when empty (0/0).
Value MeanOver(Builder& b, const OpView& op, Value x) {
  return b.Div(ReduceOver(b, "sum", x, op.Ints("axes")), CountOver(op));
}

// n - correction, and 0 where that is negative, so that the variance is then NaN or infinite.
double DegreesOfFreedom(const OpView& op) {
  return std::max(0.0, CountOver(op) - static_cast<double>(op.Int("correction")));
}

std::vector<std::string> Samples(const std::string& more = "") {
  std::vector<std::string> samples;
  for (const char* s :
       {"(f32[4,8]) {axes=[1]", "(f32[5,3]) {axes=[0]", "(bf16[2,3,5]) {axes=[0,2]",
        "(f32[3,2]) {axes=[0,1]", "(f64[4,9]) {axes=[-1]", "(f32[0,3]) {axes=[1]"}) {
    samples.push_back(StrCat(s, more, "}"));
  }
  return samples;
}

// The first index of the largest element, NaN counting as largest.
void ArgmaxReference(const OpView& op, Operands in, Results out) {
  const int axis = op.Axis("axis");
  const Dims &shape = in[0]->type.shape, dense = DenseStrides(shape);
  int64_t k = 0;
  for (Index it(out[0].type.shape); !it.done(); it.Next(), ++k) {
    int64_t best = 0;
    const int64_t base = it.Dot(dense);
    const auto at = [&](int64_t j) { return in[0]->Get(base + j * dense[axis]); };
    for (int64_t j = 1; j < shape[axis]; ++j) {
      const double x = at(j), largest = at(best);
      if (largest == largest && (x != x || x > largest)) best = j;
    }
    out[0].SetInt(k, best);
  }
}

// dx = dy * exp(x - y); all zero where y is -inf.
Values LogSumExpGrad(Builder& b, const OpView& op, const Values& dy) {
  const Value y = Wide(b, op.out(0));
  const Value empty = b.Eq(y, b.ConstantLike(-kInf, y));
  const Value shift = b.Select(empty, b.ConstantLike(0, y), y);
  return {b.Mul(b.ExpSub(op.in(0), shift), dy[0])};
}

}  // namespace

void AddStatisticsOps(OpRegistry& ops) {
  ops.Add({
      .name = "mean",
      .op_class = OpClass::kComposite,
      .operands = {{"x", TypeSet::kAnyFloat}},
      .attrs = {{"axes", Dims{}, true}},
      .precision = Precision::kComputeInF32,
      .infer = InferStatistic,
      .expand = [](Builder& b, const OpView& op) -> Values { return {MeanOver(b, op, op.in(0))}; },
      .grad = InF32([](Builder& b, const OpView& op, const Values& dy) -> Values {
        return {b.Broadcast(b.Div(dy[0], CountOver(op)), op.type(0).shape)};
      }),
      .samples = Samples(),
  });
  // Two passes: sum((x - mean)^2) / (n - correction), so that a large mean costs no accuracy.
  ops.Add({
      .name = "variance",
      .op_class = OpClass::kComposite,
      .operands = {{"x", TypeSet::kAnyFloat}},
      .attrs = {{"axes", Dims{}, true}, {"correction", int64_t{0}}},
      .precision = Precision::kComputeInF32,
      .infer = InferStatistic,
      .expand = [](Builder& b, const OpView& op) -> Values {
        const Value d = b.Sub(op.in(0), MeanOver(b, op, op.in(0)));
        return {b.Div(ReduceOver(b, "sum", b.Mul(d, d), op.Ints("axes")), DegreesOfFreedom(op))};
      },
      // dx = 2 (x - mean) dy / (n - correction).
      .grad = InF32([](Builder& b, const OpView& op, const Values& dy) -> Values {
        const Value d = b.Sub(op.in(0), MeanOver(b, op, op.in(0)));
        return {b.Mul(d, b.Div(b.Mul(dy[0], 2), DegreesOfFreedom(op)))};
      }),
      .flops = [](const OpView& op) { return 4.0 * static_cast<double>(op.type(0).NumElements()); },
      .samples = Samples(", correction=1"),
  });
  // -inf where every x is -inf.
  ops.Add({
      .name = "logsumexp",
      .op_class = OpClass::kComposite,
      .operands = {{"x", TypeSet::kAnyFloat}},
      .attrs = {{"axes", Dims{}, true}},
      .precision = Precision::kComputeInF32,
      .infer = InferStatistic,
      .expand = [](Builder& b, const OpView& op) -> Values {
        return {LogSumExp(b, op.in(0), op.Ints("axes"))};
      },
      .grad = InF32(LogSumExpGrad),
      .flops =
          [](const OpView& op) { return 13.0 * static_cast<double>(op.type(0).NumElements()); },
      .samples = Samples(),
  });
  // The same along the last axis in one sweep over each row: for rows too long to be read twice for
  // nothing, which logsumexp chooses by itself.
  ops.Add({
      .name = "online_logsumexp",
      .op_class = OpClass::kReduce,
      .operands = {{"x", TypeSet::kAnyFloat}},
      .attrs = {{"axes", Dims{}, true}},
      .precision = Precision::kComputeInF32,
      .tolerance = true,  // how elements are combined is the implementation's
      .infer =
          [](const OpView& op) {
            const int rank = op.type(0).rank();
            const Dims& axes = op.Ints("axes");
            if (rank == 0 || axes.size() != 1 ||
                NormalizeAxis(axes[0], rank, op.Where()) != rank - 1) {
              BadOperand(op, "folds the last axis alone", op.type(0));
            }
            return InferStatistic(op);
          },
      .reduce = ReduceKind::kLogSumExp,
      .grad = InF32(LogSumExpGrad),
      .reference =
          [](const OpView& op, Operands in, Results out) {
            out[0] = ReduceReference(*in[0], op.Ints("axes"), ReduceKind::kLogSumExp);
          },
      .flops =
          [](const OpView& op) { return 13.0 * static_cast<double>(op.type(0).NumElements()); },
      .samples = {"(f32[4,8]) {axes=[1]}", "(f32[3,9001]) {axes=[-1]}", "(bf16[2,3,5]) {axes=[2]}",
                  "(f64[4,9]) {axes=[-1]}", "(f32[0,3]) {axes=[1]}", "(f16[66,8200]) {axes=[1]}"},
  });
  // The first index on ties; NaN counts as largest. i32, no gradient.
  ops.Add({
      .name = "argmax",
      .op_class = OpClass::kComposite,
      .operands = {{"x", TypeSet::kAnyNumber}},
      .attrs = {{"axis", int64_t{-1}}},
      .infer =
          [](const OpView& op) {
            Type type{DType::kI32, op.type(0).shape};
            int64_t& n = type.shape[op.Axis("axis")];
            if (n == 0 || n > std::numeric_limits<int32_t>::max()) {
              BadOperand(op, StrCat("axis ", op.Int("axis"), " has no i32 index"), op.type(0));
            }
            n = 1;
            return Types{type};
          },
      .expand = [](Builder& b, const OpView& op) -> Values {
        const Value x = op.in(0);
        const int64_t axis = op.Axis("axis"), n = x.shape()[axis];
        const Value largest = b.Or(b.Eq(x, b.Max(x, axis)), b.Ne(x, x));
        const Value index = b.Iota(DType::kI32, x.shape(), static_cast<int>(axis));
        const Value none = b.ConstantLike(static_cast<double>(n), index);
        return {b.Min(b.Select(largest, index, none), axis)};
      },
      .reference = ArgmaxReference,
      .samples = {"(f32[4,8])", "(bf16[3,5,2]) {axis=1}", "(i32[7])", "(f32[0,3]) {axis=1}",
                  "(f32[6,1]) {axis=0}"},
  });
}

}  // namespace stator
