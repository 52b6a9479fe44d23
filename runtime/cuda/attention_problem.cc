#include "runtime/cuda/attention_problem.h"

#include "ir/base/error.h"
#include "runtime/fused_attention.h"

namespace stator {
namespace {

HeadStrides StridesOf(const TensorRef& t, const std::string& name, const char* what) {
  if (!t) return {};
  if (t.type.rank() != 4 || t.strides.size() != 4 || (t.strides[3] != 1 && t.type.shape[3] > 1)) {
    Fail(ErrorCode::kUnsupported, name, ": attention operand ", what, " ", t.type.ToString(),
         " with strides ", t.strides, " is not [B,T,H,D] with a dense head");
  }
  return {t.strides[0], t.strides[2], t.strides[1]};
}

std::string Text(const HeadStrides& s) { return StrCat(" ", s.b, ",", s.h, ",", s.t); }

}  // namespace

std::string AttentionProblem::Key() const {
  std::string key = StrCat(backward ? "backward" : "forward", stats ? " stats" : "",
                           deterministic ? " deterministic" : "", causal ? " causal" : "",
                           bottom_right ? " bottom-right" : "", key_lengths ? " lengths" : "");
  key += StrCat(" ", Name(dtype), " b", batch, " h", heads, "/", kv_heads, " t", query_len, "/",
                key_len, " d", head_dim, " window ", window, " scale ", scale);
  for (const HeadStrides* s : {&q, &k, &v, &out, &dout, &dq, &dk, &dv}) key += Text(*s);
  return key;
}

AttentionProblem ProblemOf(const AttentionQuery& q) {
  AttentionProblem p;
  p.backward = q.backward, p.deterministic = q.backward && q.deterministic;
  p.batch = q.batch, p.heads = q.heads, p.kv_heads = q.kv_heads;
  p.query_len = q.query_len, p.key_len = q.key_len, p.head_dim = q.head_dim;
  p.dtype = q.dtype, p.causal = q.causal, p.key_lengths = q.has_key_lengths;
  p.window = q.has_window ? (q.key_len + 1) / 2 : 0;
  const auto dense = [&](int64_t length, int64_t heads) {
    return HeadStrides{length * heads * q.head_dim, q.head_dim, heads * q.head_dim};
  };
  p.q = p.out = dense(q.query_len, q.heads);
  p.k = p.v = dense(q.key_len, q.kv_heads);
  p.bottom_right = p.causal && q.q_offset != 0;
  if (q.backward) p.dout = p.dq = p.q, p.dk = p.dv = p.k;
  return p;
}

AttentionProblem ProblemOf(const AttentionCall& c, int64_t batch, int64_t kv_heads,
                           const std::string& name) {
  AttentionProblem p;
  p.q = StridesOf(c.q, name, "q"), p.k = StridesOf(c.k, name, "k"), p.v = StridesOf(c.v, name, "v");
  p.out = StridesOf(c.out, name, "out"), p.dout = StridesOf(c.dout, name, "dout");
  p.dq = StridesOf(c.dq, name, "dq"), p.dk = StridesOf(c.dk, name, "dk");
  p.dv = StridesOf(c.dv, name, "dv");
  p.backward = c.backward, p.deterministic = c.backward && c.deterministic;
  p.stats = static_cast<bool>(c.lse);
  const int64_t all_heads = c.q.type.dim(2), all_kv_heads = c.k.type.dim(2);
  STATOR_CHECK(batch <= 1 || kv_heads == all_kv_heads, "some heads of several batch entries");
  p.batch = batch, p.heads = all_heads / all_kv_heads * kv_heads, p.kv_heads = kv_heads;
  p.query_len = c.q.type.dim(1), p.key_len = c.k.type.dim(1), p.head_dim = c.q.type.dim(3);
  p.dtype = c.q.type.dtype, p.scale = c.scale;
  p.causal = c.causal, p.window = c.window, p.key_lengths = static_cast<bool>(c.key_lengths);
  const auto refuse = [&](const std::string& why) {
    Fail(ErrorCode::kUnsupported, name, ": no fused attention: ", why);
  };
  const AttentionQuery query{batch,
                             p.heads,
                             p.kv_heads,
                             p.query_len,
                             p.key_len,
                             p.head_dim,
                             p.dtype,
                             p.causal,
                             p.window > 0,
                             static_cast<bool>(c.bias),
                             static_cast<bool>(c.q_segments) || static_cast<bool>(c.k_segments),
                             p.key_lengths,
                             c.dropout > 0,
                             p.backward,
                             p.deterministic,
                             static_cast<bool>(c.dlse),
                             c.q_offset};
  if (const std::string why = WhyNotFused(query); !why.empty()) refuse(why);
  if (c.dbias) refuse("an additive bias has no fused form yet");
  if (c.v.type.dim(3) != p.head_dim) refuse("q and v heads differ in size");
  p.bottom_right = p.causal && c.q_offset != 0;
  const Dims lse_shape = {c.q.type.dim(0), all_heads, p.query_len};
  if (c.lse &&
      (c.lse.type != Type{DType::kF32, lse_shape} || c.lse.strides != DenseStrides(lse_shape))) {
    refuse(StrCat("the log-sum-exp must be a dense f32[B,H,T], got ", c.lse.type.ToString()));
  }
  if (c.backward && !(c.lse && c.out && c.dout && c.dq && c.dk && c.dv)) {
    refuse("the backward pass needs out, lse, dout, dq, dk and dv");
  }
  if (p.key_lengths && (c.key_lengths.type.dtype != DType::kI32 ||
                        (c.key_lengths.strides.size() == 1 && c.key_lengths.strides[0] != 1))) {
    refuse("key lengths must be dense i32");
  }
  return p;
}

}  // namespace stator
