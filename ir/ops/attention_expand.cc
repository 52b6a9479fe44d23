// Attention in simpler ops, with the T x S scores as a tensor: the path for problems that no fused
// kernel takes.
#include "ir/ops/attention.h"
#include "ir/ops/random.h"

#include <limits>

namespace stator {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Grouped heads as rows: [B,T,H,D] to [B,G,R*T,D] with R = H/G, so that a batched product with
// [B,G,S,D] needs no repeated keys.
class Layout {
 public:
  Layout(Builder& b, const AttentionDims& d) : b_(b), d_(d) {}

  Value Rows(Value x) const {
    const Value heads_first = b_.Transpose(x, {0, 2, 1, 3});  // [B,H,T,D]
    return b_.Reshape(heads_first,
                      {d_.batch, d_.groups, d_.heads / d_.groups * d_.queries, d_.head_dim});
  }
  Value FromRows(Value x) const {  // the inverse of Rows
    return b_.Transpose(b_.Reshape(x, {d_.batch, d_.heads, d_.queries, d_.head_dim}), {0, 2, 1, 3});
  }
  Value Keys(Value x) const { return b_.Transpose(x, {0, 2, 1, 3}); }  // [B,S,G,D] and [B,G,S,D]
  Value Scores(Value x) const {                                        // [B,G,R*T,S] to [B,H,T,S]
    return b_.Reshape(x, {d_.batch, d_.heads, d_.queries, d_.keys});
  }
  Value ScoreRows(Value x) const {  // [B,H,T,S] to [B,G,R*T,S]
    return b_.Reshape(x, {d_.batch, d_.groups, d_.heads / d_.groups * d_.queries, d_.keys});
  }

 private:
  Builder& b_;
  const AttentionDims& d_;
};

// bool, broadcastable to [B,H,T,S]: which keys a query sees; null where it sees all.
Value Visible(Builder& b, const OpView& op, const AttentionOperands& at, const AttentionDims& d) {
  Value seen;
  const auto both = [&](Value more) { seen = seen ? b.And(seen, more) : more; };
  const int64_t window = op.Int("window");
  if (op.Bool("causal") || window > 0) {
    const Value p = b.Add(b.Iota(DType::kI64, {1, 1, d.queries, 1}, 2),
                          static_cast<double>(op.Int("q_offset")));
    const Value s = b.Iota(DType::kI64, {1, 1, 1, d.keys}, 3);
    if (op.Bool("causal")) both(b.Le(s, p));
    if (window > 0) {
      const Value distance = b.Sub(p, s);
      both(b.Lt(distance, b.ConstantLike(static_cast<double>(window), distance)));
    }
  }
  if (op.has(at.q_segments)) {
    const Value q = b.Cast(op.in(at.q_segments), DType::kI64),
                k = b.Cast(op.in(at.k_segments), DType::kI64);
    both(b.Eq(b.Reshape(q, {d.batch, 1, d.queries, 1}), b.Reshape(k, {d.batch, 1, 1, d.keys})));
  }
  if (op.has(at.key_lengths)) {
    const Value lengths = b.Cast(op.in(at.key_lengths), DType::kI64);
    both(b.Lt(b.Iota(DType::kI64, {1, 1, 1, d.keys}, 3), b.Reshape(lengths, {d.batch, 1, 1, 1})));
  }
  return seen;
}

// [B,H,T,S] in the compute type: scale q k^T + bias, -inf where the key is not seen.
Value MaskedScores(Builder& b, const OpView& op, const AttentionOperands& at,
                   const AttentionDims& d) {
  const Layout layout(b, d);
  const DType wide = ComputeType(op.type(0).dtype);
  const Value product =
      b.MatMul(layout.Rows(op.in(at.q)), layout.Keys(op.in(at.k)), false, true, wide);
  Value scores = b.Mul(layout.Scores(product), d.scale);
  if (op.has(at.bias)) scores = b.Add(scores, Wide(b, op.in(at.bias)));
  if (const Value seen = Visible(b, op, at, d)) {
    scores = b.Select(seen, scores, b.Constant(-kInf, wide));
  }
  return scores;
}

// What dropout multiplies the softmax by: 1 / (1 - rate) or 0; null without dropout.
Value DropoutFactor(Builder& b, const OpView& op, const AttentionOperands& at,
                    const AttentionDims& d, DType dtype) {
  const double rate = op.Float("dropout");
  if (rate == 0) return {};
  const Value keep = DropoutMask(b, op.in(at.seed), op.in(at.step),
                                 {d.batch, d.heads, d.queries, d.keys}, op.Int("stream"), rate);
  return b.Select(keep, b.Constant(1 / (1 - rate), dtype), b.Constant(0, dtype));
}

// `x`, and 0 where it is -inf.
Value FiniteShift(Builder& b, Value x) {
  return b.Select(b.Eq(x, b.ConstantLike(-kInf, x)), b.ConstantLike(0, x), x);
}

}  // namespace

Values ExpandAttention(Builder& b, const OpView& op) {
  const AttentionDims d = CheckAttention(op, kForward);
  const Layout layout(b, d);
  const Value scores = MaskedScores(b, op, kForward, d);
  const Value shift = FiniteShift(b, b.Max(scores, -1));  // [B,H,T,1]
  const Value e = b.ExpSub(scores, shift), sum = b.Sum(e, -1);
  const Value divisor = b.Select(b.Eq(sum, b.ConstantLike(0, sum)), b.ConstantLike(1, sum), sum);
  Value p = b.Div(e, divisor);
  if (const Value factor = DropoutFactor(b, op, kForward, d, p.dtype())) p = b.Mul(p, factor);
  const DType dtype = op.type(0).dtype;
  const Value rows = layout.ScoreRows(b.Cast(p, dtype));
  const Value out = layout.FromRows(b.MatMul(rows, layout.Keys(op.in(2)), false, false, dtype));
  const Value lse = b.Reshape(b.Add(b.Log(sum), shift), {d.batch, d.heads, d.queries});
  return {out, lse};
}

Values ExpandAttentionGrad(Builder& b, const OpView& op) {
  const AttentionDims d = CheckAttention(op, kBackward);
  const Layout layout(b, d);
  const DType dtype = op.type(0).dtype, wide = ComputeType(dtype);
  const Value q = layout.Rows(op.in(0)), k = layout.Keys(op.in(1)), v = layout.Keys(op.in(2));
  const Value dout = layout.Rows(op.in(kDout));
  const Dims column = {d.batch, d.heads, d.queries, 1};
  const Value lse = FiniteShift(b, b.Reshape(op.in(kLse), column));
  const Value p = b.ExpSub(MaskedScores(b, op, kBackward, d), lse);  // [B,H,T,S]
  Value dp = layout.Scores(b.MatMul(dout, v, false, true, wide)), dropped = p;
  if (const Value factor = DropoutFactor(b, op, kBackward, d, wide)) {
    dp = b.Mul(dp, factor);
    dropped = b.Mul(p, factor);
  }
  const Value dot = b.Sum(b.Mul(Wide(b, op.in(kDout)), Wide(b, op.in(kOut))), -1);  // [B,T,H,1]
  Value inner = b.Transpose(dot, {0, 2, 1, 3});                                     // [B,H,T,1]
  if (op.has(kDlse)) inner = b.Sub(inner, b.Reshape(op.in(kDlse), column));
  const Value ds = b.Mul(p, b.Sub(dp, inner));
  const Value rows = layout.ScoreRows(b.Cast(b.Mul(ds, d.scale), dtype));
  const Value dv = b.MatMul(layout.ScoreRows(b.Cast(dropped, dtype)), dout, true, false, dtype);
  Values results = {layout.FromRows(b.MatMul(rows, k, false, false, dtype)),
                    b.Transpose(b.MatMul(rows, q, true, false, dtype), {0, 2, 1, 3}),
                    b.Transpose(dv, {0, 2, 1, 3})};
  if (op.has(kBackward.bias)) results.push_back(b.SumTo(ds, op.in(kBackward.bias).shape()));
  return results;
}

}  // namespace stator
