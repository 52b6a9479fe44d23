// The loss head: a projection to a large vocabulary and its cross-entropy, in chunks over tokens,
// so that the full logits are never in memory.
//
// linear_cross_entropy_grad computes loss and gradient together. Nothing upstream of the gradient
// of a token's loss depends on the logits, so a chunk's logits turn into their own gradient before
// the next chunk's are computed, and the product with the weight is computed once.
#include "ir/ops/loss_head.h"

#include "ir/ops/helpers.h"
#include "ir/ops/loss_rows.h"
#include "ir/ops/ops.h"

#include <algorithm>
#include <bit>

namespace stator {
namespace {

constexpr int64_t kMostLogits = int64_t{1} << 29;
constexpr int64_t kFewestTokens = 2048;

// loss [N] for x [N,C], w [V,C], targets [N].
Type InferLoss(const OpView& op) {
  const Type &x = op.type(0), &w = op.type(1), &targets = op.type(2);
  if (x.rank() != 2) BadOperand(op, "x must be [tokens, features]", x);
  if (w.rank() != 2 || w.dim(1) != x.dim(1) || w.dtype != x.dtype) {
    BadOperands(op, "w must be [classes, features] like x", x, w);
  }
  if (targets.shape != Dims{x.dim(0)}) BadOperands(op, "needs one target a token", x, targets);
  if (op.Int("chunk") < 0) {
    Fail(ErrorCode::kInvalidArgument, op.Where(), ": chunk ", op.Int("chunk"), " is negative");
  }
  CheckSmoothing(op);
  return {StatType(x.dtype), {x.dim(0)}};
}

Types InferGrad(const OpView& op) {
  const Type loss = InferLoss(op);
  if (op.type(3).shape != loss.shape) {
    BadOperands(op, "needs one cotangent a token", op.type(0), op.type(3));
  }
  return {loss, op.type(0), {loss.dtype, op.type(1).shape}};
}

// Rows [begin, end) of a tensor.
Value RowsOf(Builder& b, Value v, int64_t begin, int64_t end) {
  return begin == 0 && end == v.shape()[0] ? v : b.SliceAxis(v, 0, begin, end);
}

// Calls f(begin, end) for every chunk of tokens; once, and with nothing, where there are none.
template <typename F>
void ForEachChunk(const OpView& op, const F& f) {
  const int64_t tokens = op.type(0).dim(0);
  const int64_t chunk = op.Int("chunk") == 0 ? tokens : op.Int("chunk");
  int64_t begin = 0;
  do {
    const int64_t end = std::min(tokens, begin + chunk);
    f(begin, end);
    begin = end;
  } while (begin < tokens);
}

Value Joined(Builder& b, const Values& parts) {
  return parts.size() == 1 ? parts[0] : b.Concat(parts, 0);
}

// The loss of rows `x`; `logits` are rounded to the dtype of x and then widened.
Values ExpandLoss(Builder& b, const OpView& op) {
  Values losses;
  ForEachChunk(op, [&](int64_t begin, int64_t end) {
    const Value x = RowsOf(b, op.in(0), begin, end), t = RowsOf(b, op.in(2), begin, end);
    const Value logits = b.MatMul(x, op.in(1), false, true, x.dtype());
    losses.push_back(CrossEntropyRows(b, op, Wide(b, logits), t).loss);
  });
  return {Joined(b, losses)};
}

Values ExpandGrad(Builder& b, const OpView& op) {
  Values losses, dx;
  Value dw;
  const Value w = op.in(1);
  const DType wide = StatType(w.dtype());
  ForEachChunk(op, [&](int64_t begin, int64_t end) {
    const Value x = RowsOf(b, op.in(0), begin, end), t = RowsOf(b, op.in(2), begin, end);
    const Value dloss = Wide(b, RowsOf(b, op.in(3), begin, end));
    const Value logits = Wide(b, b.MatMul(x, w, false, true, x.dtype()));
    const RowLosses rows = CrossEntropyRows(b, op, logits, t);
    const Value dlogits =
        b.Cast(CrossEntropyRowsGrad(b, op, logits, t, rows.lse, dloss, {}), x.dtype());
    losses.push_back(rows.loss);
    dx.push_back(b.MatMul(dlogits, w, false, false, x.dtype()));
    const Value part = b.MatMul(dlogits, x, true, false, wide);
    dw = dw ? b.Add(dw, part) : part;
  });
  return {Joined(b, losses), Joined(b, dx), dw};
}

// Logits of one token, rounded as the expansion rounds them.
std::vector<double> LogitsOf(Operands in, int64_t token) {
  const int64_t features = in[0]->type.dim(1), classes = in[1]->type.dim(0);
  Tensor logits(Type{in[0]->type.dtype, {classes}});
  for (int64_t v = 0; v < classes; ++v) {
    double sum = 0;
    for (int64_t c = 0; c < features; ++c) {
      sum += in[0]->f[token * features + c] * in[1]->f[v * features + c];
    }
    logits.Set(v, sum);
  }
  return logits.f;
}

void LossReference(const OpView& op, Operands in, Results out) {
  for (int64_t n = 0; n < out[0].size(); ++n) {
    CheckIndex(op, 2, in[2]->i[n]);
    const std::vector<double> x = LogitsOf(in, n);
    out[0].Set(n, CrossEntropyRow(op, x.data(), in[1]->type.dim(0), in[2]->i[n]).loss);
  }
}

void GradReference(const OpView& op, Operands in, Results out) {
  const int64_t features = in[0]->type.dim(1), classes = in[1]->type.dim(0);
  std::vector<double> dw(out[2].size(), 0.0);
  for (int64_t n = 0; n < out[0].size(); ++n) {
    CheckIndex(op, 2, in[2]->i[n]);
    const std::vector<double> x = LogitsOf(in, n);
    Tensor d(Type{in[0]->type.dtype, {classes}});
    std::vector<double> dx(features, 0.0), row(classes);
    const RowLoss loss =
        CrossEntropyRow(op, x.data(), classes, in[2]->i[n], in[3]->f[n], row.data());
    out[0].Set(n, loss.loss);
    for (int64_t v = 0; v < classes; ++v) {
      d.Set(v, row[v]);
      for (int64_t c = 0; c < features; ++c) {
        dx[c] += d.f[v] * in[1]->f[v * features + c];
        dw[v * features + c] += d.f[v] * in[0]->f[n * features + c];
      }
    }
    for (int64_t c = 0; c < features; ++c) out[1].Set(n * features + c, dx[c]);
  }
  for (int64_t k = 0; k < out[2].size(); ++k) out[2].Set(k, dw[k]);
}

// Of one product [N,C] x [C,V], and of the row's pass.
double Flops(const OpView& op, double products, double pass) {
  const double logits =
      static_cast<double>(op.type(0).dim(0)) * static_cast<double>(op.type(1).dim(0));
  return logits * (products * 2 * static_cast<double>(op.type(0).dim(1)) + pass);
}

const std::vector<OperandDef>& Operands3() {
  static const auto* const kOperands = new std::vector<OperandDef>{{"x", TypeSet::kAnyFloat},
                                                                   {"w", TypeSet::kAnyFloat},
                                                                   {.name = "targets",
                                                                    .types = TypeSet::kIndex,
                                                                    .domain = Domain::kIndex,
                                                                    .limit_operand = 1,
                                                                    .limit_axis = 0,
                                                                    .ignore_attr = "ignore_index"}};
  return *kOperands;
}

std::vector<AttrDef> Attrs() {
  return {{"ignore_index", int64_t{-100}},
          {"label_smoothing", 0.0},
          {"z_loss", 0.0},
          {"chunk", int64_t{0}}};
}

}  // namespace

int64_t LossHeadChunk(int64_t tokens, int64_t classes) {
  const auto most = static_cast<uint64_t>(kMostLogits / std::max<int64_t>(classes, 1));
  const int64_t fits =
      std::max(kFewestTokens, static_cast<int64_t>(std::bit_floor(std::max<uint64_t>(most, 1))));
  if (tokens <= fits) return tokens;
  // Chunks of nearly one size: equal shapes are compiled and tuned once.
  const int64_t chunks = (tokens + fits - 1) / fits, even = (tokens + chunks - 1) / chunks;
  return (even + 127) / 128 * 128;
}

void AddLossHeadOps(OpRegistry& ops) {
  // x [N,C], w [V,C], targets [N] -> the cross-entropy of each row of x w^T, f32 [N] (f64 for f64),
  // as cross_entropy has it. Logits are rounded to x's dtype, `chunk` tokens at a time (0: all).
  ops.Add({
      .name = "linear_cross_entropy",
      .op_class = OpClass::kComposite,
      .operands = Operands3(),
      .attrs = Attrs(),
      .precision = Precision::kLow,
      .tolerance = true,
      .infer = [](const OpView& op) { return Types{InferLoss(op)}; },
      .expand = ExpandLoss,
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        const Values g = b.Create("linear_cross_entropy_grad",
                                  {op.in(0), op.in(1), op.in(2), dy[0]}, op.attrs());
        return {g[1], b.Cast(g[2], op.type(1).dtype), Value{}};
      },
      .reference = LossReference,
      .flops = [](const OpView& op) { return Flops(op, 1, 15); },
      .samples = {"(f32[4,3], f32[8,3], i32[4])", "(f32[7,4], f32[9,4], i32[7]) {chunk=3}",
                  "(bf16[6,8], bf16[11,8], i32[6]) {chunk=4, label_smoothing=0.1, z_loss=0.001}",
                  "(f32[5,2], f32[7,2], i64[5]) {chunk=2, ignore_index=-1}",
                  "(f32[3,4], f32[1,4], i32[3])", "(f32[0,4], f32[5,4], i32[0]) {chunk=2}"},
  });
  // And with the cotangents dloss [N]: the loss once more, dx [N,C] and dw [V,C]; dw is f32 (f64
  // for f64), its chunks added up in order.
  std::vector<OperandDef> operands = Operands3();
  operands.push_back({.name = "dloss", .types = TypeSet::kAnyFloat, .wide = true});
  ops.Add({
      .name = "linear_cross_entropy_grad",
      .op_class = OpClass::kComposite,
      .operands = operands,
      .attrs = Attrs(),
      .precision = Precision::kLow,
      .tolerance = true,
      .infer = InferGrad,
      .expand = ExpandGrad,
      .reference = GradReference,
      .also_computes = "linear_cross_entropy",
      .flops = [](const OpView& op) { return Flops(op, 3, 30); },
      .samples = {"(f32[4,3], f32[8,3], i32[4], f32[4])",
                  "(f32[7,4], f32[9,4], i32[7], f32[7]) {chunk=3}",
                  "(bf16[6,8], bf16[11,8], i32[6], f32[6]) {chunk=4, label_smoothing=0.1, "
                  "z_loss=0.001}",
                  "(f32[5,2], f32[7,2], i64[5], f32[5]) {chunk=2, ignore_index=-1}",
                  "(f32[3,4], f32[1,4], i32[3], f32[3])",
                  "(f32[0,4], f32[5,4], i32[0], f32[0]) {chunk=2}"},
  });
}

}  // namespace stator
