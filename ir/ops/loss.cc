// Cross-entropy over the last axis.
#include "ir/ops/helpers.h"
#include "ir/ops/loss_rows.h"
#include "ir/ops/ops.h"

#include <cmath>

namespace stator {
namespace {

Types InferCrossEntropy(const OpView& op) {
  const Type &logits = op.type(0), &targets = op.type(1);
  Type row{StatType(logits.dtype), logits.shape};
  if (logits.rank() < 1) BadOperand(op, "logits need a class axis", logits);
  row.shape.pop_back();
  if (targets.shape != row.shape) {
    BadOperands(op, "targets must have the logits' shape without its last axis", logits, targets);
  }
  CheckSmoothing(op);
  return {row, row};
}

// [..] to [..,1].
Value Column(Builder& b, Value v) {
  Dims shape = v.shape();
  shape.push_back(1);
  return b.Reshape(v, shape);
}

Value IsIgnored(Builder& b, const OpView& op, Value targets) {
  return b.Eq(targets, b.ConstantLike(static_cast<double>(op.Int("ignore_index")), targets));
}

Values CrossEntropyGrad(Builder& b, const OpView& op, const Values& dy) {
  return {CrossEntropyRowsGrad(b, op, op.in(0), op.in(1), op.out(1), dy[0], dy[1]), Value{}};
}

// Plain loops in f64, rounded once.
void CrossEntropyReference(const OpView& op, Operands in, Results out) {
  const int64_t classes = in[0]->type.dim(-1);
  for (int64_t n = 0; n < out[0].size(); ++n) {
    CheckIndex(op, 1, in[1]->i[n]);
    const RowLoss row = CrossEntropyRow(op, in[0]->f.data() + n * classes, classes, in[1]->i[n]);
    out[0].Set(n, row.loss);
    out[1].Set(n, row.lse);
  }
}

}  // namespace

void CheckSmoothing(const OpView& op) {
  const double smoothing = op.Float("label_smoothing");
  if (smoothing >= 0 && smoothing <= 1) return;
  Fail(ErrorCode::kInvalidArgument, op.Where(), ": label_smoothing ", smoothing,
       " is not in [0,1]");
}

RowLosses CrossEntropyRows(Builder& b, const OpView& op, Value x, Value targets) {
  const double e = op.Float("label_smoothing"), z = op.Float("z_loss");
  const Value lse = LogSumExp(b, x, {x.type().rank() - 1});  // [..,1]
  const Value t = Column(b, targets), ignored = IsIgnored(b, op, t);
  const Value picked =  // an ignored target may be any number
      b.Create1("take_along", {x, b.Select(ignored, b.ConstantLike(0, t), t)},
                {{"axis", int64_t{-1}}});
  Value loss = b.Sub(lse, e == 0 ? picked : b.Mul(picked, 1 - e));
  if (e != 0) loss = b.Sub(loss, b.Mul(b.Mean(x, {-1}), e));
  if (z != 0) loss = b.Add(loss, b.Mul(b.Mul(lse, lse), z));
  loss = b.Select(ignored, b.ConstantLike(0, loss), loss);
  return {b.Reshape(loss, targets.shape()), b.Reshape(lse, targets.shape())};
}

Value CrossEntropyRowsGrad(Builder& b, const OpView& op, Value x, Value targets, Value lse_row,
                           Value dloss_row, Value dlse) {
  const Value lse = Column(b, lse_row);
  const double e = op.Float("label_smoothing"), z = op.Float("z_loss");
  const Value t = Column(b, targets), ignored = IsIgnored(b, op, t);
  Value factor, dloss;  // [..,1]
  if (dloss_row) {
    const Value column = Column(b, dloss_row);
    dloss = b.Select(ignored, b.ConstantLike(0, column), column);
    factor = z == 0 ? dloss : b.Mul(dloss, b.Add(b.Mul(lse, 2 * z), 1));
  }
  if (dlse) factor = factor ? b.Add(factor, Column(b, dlse)) : Column(b, dlse);
  const Value dx = b.Mul(b.ExpSub(x, lse), factor);
  if (!dloss) return dx;
  const double share = e / static_cast<double>(x.type().dim(-1));
  const Value classes = b.Iota(t.dtype(), x.shape(), x.type().rank() - 1);
  const Value hit = b.Sub(dx, e == 0 ? dloss : b.Mul(dloss, 1 - e + share));
  return b.Select(b.Eq(classes, t), hit, e == 0 ? dx : b.Sub(dx, b.Mul(dloss, share)));
}

RowLoss CrossEntropyRow(const OpView& op, const double* x, int64_t classes, int64_t t, double dloss,
                        double* dx) {
  const double e = op.Float("label_smoothing"), z = op.Float("z_loss");
  double largest = -HUGE_VAL, sum = 0, total = 0;
  for (int64_t v = 0; v < classes; ++v) largest = std::fmax(largest, x[v]), total += x[v];
  if (std::isinf(largest)) largest = 0;
  for (int64_t v = 0; v < classes; ++v) sum += std::exp(x[v] - largest);
  const double lse = std::log(sum) + largest;
  const bool ignored = t == op.Int("ignore_index");
  const double share = e / static_cast<double>(classes);
  if (dx != nullptr) {
    for (int64_t v = 0; v < classes; ++v) {
      const double target = share + (v == t ? 1 - e : 0);
      dx[v] = ignored ? 0 : dloss * ((1 + 2 * z * lse) * std::exp(x[v] - lse) - target);
    }
  }
  const double smooth = e == 0 ? 0 : share * total;
  return {ignored ? 0 : lse - (1 - e) * x[t] - smooth + (z == 0 ? 0 : z * lse * lse), lse};
}

void AddLossOps(OpRegistry& ops) {
  // logits [..,V], targets [..] -> (loss [..], log-sum-exp [..]), both f32 (f64 for f64). An
  // ignored target's loss is 0; the caller divides by the number of the others.
  ops.Add({
      .name = "cross_entropy",
      .op_class = OpClass::kComposite,
      .operands = {{"logits", TypeSet::kAnyFloat},
                   {.name = "targets",
                    .types = TypeSet::kIndex,
                    .domain = Domain::kIndex,
                    .limit_axis = -1,
                    .ignore_attr = "ignore_index"}},
      .attrs = {{"ignore_index", int64_t{-100}}, {"label_smoothing", 0.0}, {"z_loss", 0.0}},
      .precision = Precision::kComputeInF32,
      .infer = InferCrossEntropy,
      .expand = [](Builder& b, const OpView& op) -> Values {
        const RowLosses rows = CrossEntropyRows(b, op, op.in(0), op.in(1));
        return {rows.loss, rows.lse};
      },
      .grad = InF32(CrossEntropyGrad),
      .reference = CrossEntropyReference,
      .flops =
          [](const OpView& op) { return 15.0 * static_cast<double>(op.type(0).NumElements()); },
      .samples = {"(f32[4,8], i32[4])", "(bf16[6,11], i32[6]) {label_smoothing=0.1, z_loss=0.001}",
                  "(f32[2,3,5], i64[2,3]) {ignore_index=-1}", "(f32[3,1], i32[3])",
                  "(f32[2,1030], i32[2]) {z_loss=0.0001}",
                  "(f32[5,7], i32[5]) {ignore_index=2, label_smoothing=0.2}", "(f64[0,4], i32[0])"},
  });
}

}  // namespace stator
