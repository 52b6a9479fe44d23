#include "tests/gpu/attention_case.h"

#include "tests/gpu/matmul_cases.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace stator::gpu_test {
namespace {

// Copies dense [B,T,H,D] values into heads [first, first + H) of rows of `heads` heads.
void PutHeads(std::vector<double>& packed, const std::vector<double>& dense, int64_t rows,
              int64_t h, int64_t d, int64_t heads, int64_t first) {
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(dense.begin() + r * h * d, h * d, packed.begin() + (r * heads + first) * d);
  }
}

TensorRef Heads(const TensorRef& flat, int64_t b, int64_t t, int64_t h, int64_t d, int64_t heads,
                int64_t first) {
  return ViewOf(flat, first * d, {b, t, h, d}, {t * heads * d, heads * d, d, 1});
}

}  // namespace

AttentionQuery QueryOf(const AttentionCase& c, bool backward) {
  AttentionQuery q{};
  q.batch = c.chunk > 0 ? std::min(c.chunk, c.b) : c.b;
  q.kv_heads = c.head_chunk > 0 ? c.head_chunk : c.g, q.heads = c.h / c.g * q.kv_heads;
  q.query_len = c.t, q.key_len = c.s, q.head_dim = c.d;
  q.dtype = c.dtype, q.causal = c.causal, q.has_window = c.window > 0;
  q.has_key_lengths = !c.key_lengths.empty(), q.backward = backward;
  q.deterministic = c.deterministic;
  return q;
}

std::unique_ptr<AttentionPlan> BuildAttention(const AttentionCase& c, const Target& target) {
  auto built = std::make_unique<AttentionPlan>();
  PlanMaker& plan = built->plan;
  built->q = Random(c.dtype, c.b * c.t * c.h * c.d, 1);
  built->k = Random(c.dtype, c.b * c.s * c.g * c.d, 2);
  built->v = Random(c.dtype, c.b * c.s * c.g * c.d, 3);
  built->dout = Random(c.dtype, c.b * c.t * c.h * c.d, 4);
  AttentionCall& f = built->forward;
  AttentionCall& back = built->backward;
  if (c.packed) {
    const int64_t heads = c.h + 2 * c.g, total = c.b * c.t * heads * c.d;
    std::vector<double> packed(static_cast<size_t>(total));
    PutHeads(packed, built->q, c.b * c.t, c.h, c.d, heads, 0);
    PutHeads(packed, built->k, c.b * c.t, c.g, c.d, heads, c.h);
    PutHeads(packed, built->v, c.b * c.t, c.g, c.d, heads, c.h + c.g);
    const TensorRef in = plan.Input("qkv", c.dtype, {total}, packed);
    const TensorRef grad = plan.Output("dqkv", c.dtype, {total});
    f.q = Heads(in, c.b, c.t, c.h, c.d, heads, 0);
    f.k = Heads(in, c.b, c.t, c.g, c.d, heads, c.h);
    f.v = Heads(in, c.b, c.t, c.g, c.d, heads, c.h + c.g);
    back.dq = Heads(grad, c.b, c.t, c.h, c.d, heads, 0);
    back.dk = Heads(grad, c.b, c.t, c.g, c.d, heads, c.h);
    back.dv = Heads(grad, c.b, c.t, c.g, c.d, heads, c.h + c.g);
  } else {
    f.q = plan.Input("q", c.dtype, {c.b, c.t, c.h, c.d}, built->q);
    f.k = plan.Input("k", c.dtype, {c.b, c.s, c.g, c.d}, built->k);
    f.v = plan.Input("v", c.dtype, {c.b, c.s, c.g, c.d}, built->v);
    back.dq = plan.Output("dq", c.dtype, f.q.type.shape);
    back.dk = plan.Output("dk", c.dtype, f.k.type.shape);
    back.dv = plan.Output("dv", c.dtype, f.v.type.shape);
  }
  if (!c.key_lengths.empty()) {
    f.key_lengths = plan.Input("lengths", DType::kI32, {c.b}, c.key_lengths);
  }
  f.out = plan.Output("out", c.dtype, {c.b, c.t, c.h, c.d});
  f.lse = plan.Output("lse", DType::kF32, {c.b, c.h, c.t});
  f.causal = c.causal, f.window = c.window, f.q_offset = c.q_offset;
  f.scale = 1 / std::sqrt(static_cast<double>(c.d));
  f.batch_chunk = c.chunk, f.head_chunk = c.head_chunk;
  f.deterministic = c.deterministic;
  const TensorRef dq = back.dq, dk = back.dk, dv = back.dv;
  back = f;
  back.backward = true;
  back.dq = dq, back.dk = dk, back.dv = dv;
  back.dout = plan.Input("dout", c.dtype, {c.b, c.t, c.h, c.d}, built->dout);
  for (AttentionCall* call : {&f, &back}) {
    const int64_t one = target.AttentionWorkspace(QueryOf(c, call->backward));
    const int64_t aligned = (one + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
    call->workspace_bytes = std::max<int64_t>(aligned * c.streams, kBufferAlignment);
    call->workspace = plan.Take(Space::kArena, call->workspace_bytes);
  }
  for (const PlanOutput& output : plan.plan.programs[0].outputs) {
    plan.Step(FillCall{output.buffer, output.type.Bytes(), 0xff}, "poison");
  }
  plan.Step(f, "attention");
  plan.Step(back, "attention_grad");
  return built;
}

AttentionValues ReadAttention(const AttentionPlan& plan, const OutputMap& out) {
  const DType dtype = plan.forward.q.type.dtype;
  AttentionValues values;
  values.out = FromBytes(dtype, out.at("out"));
  values.lse = FromBytes(DType::kF32, out.at("lse"));
  const auto gradient = [&](const std::string& name, const TensorRef& t) {
    const auto packed = out.find("dqkv");
    if (packed == out.end()) return FromBytes(dtype, out.at(name));
    // The view's offset within the packed buffer.
    const std::vector<double> all = FromBytes(dtype, packed->second);
    const int64_t at = (t.buffer.offset - plan.backward.dq.buffer.offset) / ByteWidth(dtype);
    return Gather(t, std::vector<double>(all.begin() + at, all.end()));
  };
  values.dq = gradient("dq", plan.backward.dq);
  values.dk = gradient("dk", plan.backward.dk);
  values.dv = gradient("dv", plan.backward.dv);
  return values;
}

AttentionValues ReferenceAttention(const AttentionCase& c, const AttentionPlan& plan) {
  AttentionValues r;
  r.out.assign(plan.q.size(), 0), r.dq.assign(plan.q.size(), 0);
  r.dk.assign(plan.k.size(), 0), r.dv.assign(plan.v.size(), 0);
  r.lse.assign(static_cast<size_t>(c.b * c.h * c.t), -std::numeric_limits<double>::infinity());
  const double scale = plan.forward.scale;
  std::vector<double> p(static_cast<size_t>(c.s)), dp(static_cast<size_t>(c.s));
  for (int64_t b = 0; b < c.b; ++b) {
    const int64_t keys =
        c.key_lengths.empty() ? c.s : static_cast<int64_t>(c.key_lengths[static_cast<size_t>(b)]);
    for (int64_t h = 0; h < c.h; ++h) {
      for (int64_t t = 0; t < c.t; ++t) {
        const int64_t at = t + c.q_offset;
        const int64_t end = c.causal ? std::min(keys, at + 1) : keys;
        const int64_t begin = c.window > 0 ? std::max<int64_t>(0, at - c.window + 1) : 0;
        if (begin >= end) continue;
        const double* q = &plan.q[static_cast<size_t>(((b * c.t + t) * c.h + h) * c.d)];
        const double* dout = &plan.dout[static_cast<size_t>(((b * c.t + t) * c.h + h) * c.d)];
        const auto key_at = [&](int64_t s) {
          return static_cast<size_t>(((b * c.s + s) * c.g + h / (c.h / c.g)) * c.d);
        };
        double most = -std::numeric_limits<double>::infinity(), sum = 0, delta = 0;
        for (int64_t s = begin; s < end; ++s) {
          double dot = 0;
          for (int64_t i = 0; i < c.d; ++i)
            dot += q[i] * plan.k[key_at(s) + static_cast<size_t>(i)];
          p[static_cast<size_t>(s)] = dot * scale;
          most = std::max(most, dot * scale);
        }
        for (int64_t s = begin; s < end; ++s) sum += std::exp(p[static_cast<size_t>(s)] - most);
        const double lse = most + std::log(sum);
        r.lse[static_cast<size_t>((b * c.h + h) * c.t + t)] = lse;
        double* out = &r.out[static_cast<size_t>(((b * c.t + t) * c.h + h) * c.d)];
        double* dq = &r.dq[static_cast<size_t>(((b * c.t + t) * c.h + h) * c.d)];
        for (int64_t s = begin; s < end; ++s) {
          double& weight = p[static_cast<size_t>(s)];
          weight = std::exp(weight - lse);
          dp[static_cast<size_t>(s)] = 0;
          for (int64_t i = 0; i < c.d; ++i) {
            out[i] += weight * plan.v[key_at(s) + static_cast<size_t>(i)];
            dp[static_cast<size_t>(s)] += dout[i] * plan.v[key_at(s) + static_cast<size_t>(i)];
            r.dv[key_at(s) + static_cast<size_t>(i)] += weight * dout[i];
          }
          delta += weight * dp[static_cast<size_t>(s)];
        }
        for (int64_t s = begin; s < end; ++s) {
          const double ds =
              p[static_cast<size_t>(s)] * (dp[static_cast<size_t>(s)] - delta) * scale;
          for (int64_t i = 0; i < c.d; ++i) {
            dq[i] += ds * plan.k[key_at(s) + static_cast<size_t>(i)];
            r.dk[key_at(s) + static_cast<size_t>(i)] += ds * q[i];
          }
        }
      }
    }
  }
  return r;
}

}  // namespace stator::gpu_test
