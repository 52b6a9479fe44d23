// attention and attention_grad: records, inference, cost. One op wide enough for every mask, so
// that passes and libraries see a whole problem.
#include "ir/ops/attention.h"

#include "ir/ops/ops.h"
#include "ir/ops/random.h"

#include <algorithm>
#include <cmath>

namespace stator {
namespace {

Type LseType(const AttentionDims& d, DType dtype) {
  return {StatType(dtype), {d.batch, d.heads, d.queries}};
}

Types InferAttention(const OpView& op) {
  const AttentionDims d = CheckAttention(op, kForward);
  return {op.type(0), LseType(d, op.type(0).dtype)};
}

Types InferAttentionGrad(const OpView& op) {
  const AttentionDims d = CheckAttention(op, kBackward);
  for (const int i : {kOut, kDout}) {
    if (op.type(i) != op.type(0))
      BadOperands(op, "out and dout have q's type", op.type(i), op.type(0));
  }
  for (const int i : {kLse, kDlse}) {
    if (op.has(i) && op.type(i) != LseType(d, op.type(0).dtype)) {
      BadOperands(op, "lse and dlse are [B,H,T] of q, f32 or f64", op.type(i), op.type(0));
    }
  }
  Types types = {op.type(0), op.type(1), op.type(2)};
  if (op.has(kBackward.bias)) types.push_back(op.type(kBackward.bias));
  return types;
}

Values AttentionGrad(Builder& b, const OpView& op, const Values& dy) {
  const Value q = op.in(0);
  const Value dout = dy[0] ? b.Cast(dy[0], q.dtype()) : b.ConstantLike(0, q);
  std::vector<Value> operands = {q, op.in(1), op.in(2), op.out(0), op.out(1), dout, dy[1]};
  for (int i = kForward.bias; i <= kForward.step; ++i) operands.push_back(op.in(i));
  Values dx = b.Create("attention_grad", operands, op.attrs());
  dx.resize(op.num_operands());
  return dx;
}

// Query-key pairs that causality and the window allow; lengths and segments are known at run time
// only.
double Pairs(const OpView& op, const AttentionDims& d) {
  const bool causal = op.Bool("causal");
  const int64_t window = op.Int("window"), offset = op.Int("q_offset");
  if (!causal && window == 0) return static_cast<double>(d.queries) * static_cast<double>(d.keys);
  double pairs = 0;
  for (int64_t t = 0; t < d.queries; ++t) {
    const int64_t at = t + offset;
    const int64_t last = causal ? std::min(d.keys - 1, at) : d.keys - 1;
    const int64_t first = window > 0 ? std::max<int64_t>(0, at - window + 1) : 0;
    pairs += static_cast<double>(std::max<int64_t>(0, last - first + 1));
  }
  return pairs;
}

// `matmuls` of 2 D operations each for every pair and head.
double AttentionFlops(const OpView& op, const AttentionOperands& at, int matmuls) {
  const AttentionDims d = CheckAttention(op, at);
  return 2.0 * matmuls * static_cast<double>(d.batch * d.heads * d.head_dim) * Pairs(op, d);
}

std::vector<OperandDef> Masks() {
  return {{.name = "bias", .types = TypeSet::kAnyFloat, .optional = true},
          {.name = "q_segments",
           .types = TypeSet::kIndex,
           .optional = true,
           .domain = Domain::kSegment},
          {.name = "k_segments",
           .types = TypeSet::kIndex,
           .optional = true,
           .domain = Domain::kSegment},
          {.name = "key_lengths",
           .types = TypeSet::kIndex,
           .optional = true,
           .domain = Domain::kLength,
           .limit_operand = 1,
           .limit_axis = 1},
          {.name = "seed", .types = TypeSet::kAnyInteger, .optional = true},
          {.name = "step", .types = TypeSet::kIndex, .optional = true}};
}

std::vector<OperandDef> WithMasks(std::vector<OperandDef> operands) {
  for (OperandDef& o : Masks()) operands.push_back(std::move(o));
  return operands;
}

std::vector<AttrDef> Attributes() {
  return {{"causal", false},        {"window", int64_t{0}}, {"scale", 0.0},
          {"q_offset", int64_t{0}}, {"dropout", 0.0},       {"stream", int64_t{0}}};
}

}  // namespace

AttentionDims CheckAttention(const OpView& op, const AttentionOperands& at) {
  const Type &q = op.type(at.q), &k = op.type(at.k), &v = op.type(at.v);
  if (q.rank() != 4) BadOperand(op, "q must be [B,T,H,D]", q);
  if (k.rank() != 4 || k.dim(0) != q.dim(0) || k.dim(3) != q.dim(3) || k.dtype != q.dtype) {
    BadOperands(op, "k must be [B,S,G,D] of q [B,T,H,D]", k, q);
  }
  if (v != k) BadOperands(op, "k and v differ", k, v);
  AttentionDims d = {q.dim(0), q.dim(1), q.dim(2), q.dim(3), k.dim(1), k.dim(2), op.Float("scale")};
  if (d.groups == 0 || d.heads % d.groups != 0) {
    BadOperands(op, "the heads of q are no multiple of the heads of k", q, k);
  }
  if (d.scale == 0) d.scale = 1 / std::sqrt(static_cast<double>(d.head_dim));
  if (op.has(at.bias)) {
    const Type& bias = op.type(at.bias);
    if (bias.rank() != 4 || (bias.dim(0) != 1 && bias.dim(0) != d.batch) ||
        (bias.dim(1) != 1 && bias.dim(1) != d.heads) || bias.dim(2) != d.queries ||
        bias.dim(3) != d.keys || ComputeType(bias.dtype) != ComputeType(q.dtype)) {
      BadOperands(op, "bias must be [B|1,H|1,T,S] of q", bias, q);
    }
  }
  if (op.has(at.q_segments) != op.has(at.k_segments)) {
    Fail(ErrorCode::kInvalidArgument, op.Where(), ": q_segments and k_segments come together");
  }
  const auto check = [&](int i, const Dims& shape) {
    if (op.has(i) && op.type(i).shape != shape) {
      Fail(ErrorCode::kInvalidArgument, op.Where(), ": ", op.def().operands[i].name, " must be ",
           shape, ", got ", op.type(i).ToString());
    }
  };
  check(at.q_segments, {d.batch, d.queries});
  check(at.k_segments, {d.batch, d.keys});
  check(at.key_lengths, {d.batch});
  if (op.Int("window") < 0) Fail(ErrorCode::kInvalidArgument, op.Where(), ": window is negative");
  CheckDropoutRate(op, op.Float("dropout"));
  if (op.Float("dropout") > 0) {
    if (!op.has(at.seed) || !op.has(at.step)) {
      Fail(ErrorCode::kInvalidArgument, op.Where(), ": dropout needs a seed and a step");
    }
    CheckSeed(op, at.seed);
  }
  return d;
}

void AddAttentionOps(OpRegistry& ops) {
  // out = softmax(scale q k^T + bias) v over the keys a query may see, lse the log of the softmax's
  // denominator. q [B,T,H,D]; k, v [B,S,G,D], H a multiple of G: query head h reads key head
  // h / (H/G). A query at t sees the key at s if, with p = t + q_offset,
  //   causal: s <= p;  window > 0: p - s < window;  segments equal;  s < key_lengths[b].
  // A query that sees none gives out 0, lse -inf and no gradient. Dropout acts on the softmax's
  // values by random_bits of shape [B,H,T,S]; lse is that without dropout. scale 0: 1/sqrt(D).
  const std::vector<OperandDef> qkv = {
      {"q", TypeSet::kAnyFloat}, {"k", TypeSet::kAnyFloat}, {"v", TypeSet::kAnyFloat}};
  std::vector<OperandDef> saved = qkv;
  saved.push_back({"out", TypeSet::kAnyFloat});
  saved.push_back({.name = "lse", .types = TypeSet::kAnyFloat, .wide = true});
  saved.push_back({"dout", TypeSet::kAnyFloat});
  saved.push_back({.name = "dlse", .types = TypeSet::kAnyFloat, .optional = true, .wide = true});
  ops.Add({
      .name = "attention",
      .op_class = OpClass::kAttention,
      .operands = WithMasks(qkv),
      .attrs = Attributes(),
      .precision = Precision::kLow,
      .tolerance = true,
      .infer = InferAttention,
      .expand = ExpandAttention,
      .grad = AttentionGrad,
      .reference = AttentionReference,
      .flops = [](const OpView& op) { return AttentionFlops(op, kForward, 2); },
      .samples =
          {"(f32[2,5,3,8], f32[2,7,3,8], f32[2,7,3,8])",
           "(f32[2,6,4,4], f32[2,6,2,4], f32[2,6,2,4]) {causal=true}",
           "(bf16[1,9,2,8], bf16[1,9,1,8], bf16[1,9,1,8]) {causal=true, window=3}",
           "(f32[2,3,2,4], f32[2,5,2,4], f32[2,5,2,4], f32[1,2,3,5]) {causal=true, q_offset=2}",
           "(f32[2,4,2,4], f32[2,6,1,4], f32[2,6,1,4], f32[2,1,4,6], i32[2,4], i32[2,6], i32[2]) "
           "{scale=0.3}",
           "(f32[1,5,2,4], f32[1,5,2,4], f32[1,5,2,4], _, _, _, _, u32[2], i64[]) {causal=true, "
           "dropout=0.3, stream=5}",
           "(f32[1,3,1,4], f32[1,3,1,4], f32[1,3,1,4]) {causal=true, q_offset=-2}",
           "(f32[1,1,1,1], f32[1,1,1,1], f32[1,1,1,1]) {window=1}",
           "(f32[2,0,2,4], f32[2,3,2,4], f32[2,3,2,4])",
           "(f32[1,2,2,4], f32[1,0,2,4], f32[1,0,2,4])"},
  });
  // The gradients of attention: dq, dk, dv, and dbias where there is a bias. With P = exp(s - lse)
  // for scores s, P' = P with dropout, dP = dropout of (dout v^T):
  //   dS = P (dP - rowsum(dout * out) + dlse), dq = scale dS k, dk = scale dS^T q,
  //   dv = P'^T dout, dbias = dS summed to bias's shape.
  ops.Add({
      .name = "attention_grad",
      .op_class = OpClass::kAttention,
      .operands = WithMasks(saved),
      .attrs = Attributes(),
      .precision = Precision::kLow,
      .tolerance = true,
      .infer = InferAttentionGrad,
      .expand = ExpandAttentionGrad,
      .reference = AttentionGradReference,
      .flops = [](const OpView& op) { return AttentionFlops(op, kBackward, 5); },
      .samples =
          {"(f32[2,5,4,4], f32[2,7,2,4], f32[2,7,2,4], f32[2,5,4,4], f32[2,4,5], f32[2,5,4,4])",
           "(bf16[1,6,2,8], bf16[1,6,1,8], bf16[1,6,1,8], bf16[1,6,2,8], f32[1,2,6], "
           "bf16[1,6,2,8]) {causal=true, window=3}",
           "(f32[2,3,2,4], f32[2,5,2,4], f32[2,5,2,4], f32[2,3,2,4], f32[2,2,3], f32[2,3,2,4], "
           "f32[2,2,3], f32[1,2,3,5], i32[2,3], i32[2,5], i32[2]) {causal=true, q_offset=2}",
           "(f32[1,4,2,4], f32[1,4,2,4], f32[1,4,2,4], f32[1,4,2,4], f32[1,2,4], f32[1,4,2,4], _, "
           "_, _, _, _, u32[2], i64[]) {dropout=0.3, stream=5}",
           "(f32[2,0,2,4], f32[2,3,2,4], f32[2,3,2,4], f32[2,0,2,4], f32[2,2,0], f32[2,0,2,4])"},
  });
}

}  // namespace stator
