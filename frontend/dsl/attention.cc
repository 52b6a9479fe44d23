#include "frontend/dsl/attention.h"

#include "frontend/dsl/emit.h"
#include "ir/base/error.h"

#include <cmath>
#include <numbers>

namespace stator::dsl {

RotaryTables MakeRotary(const Scope& s, int64_t positions, int64_t head_dim, double theta,
                        const std::optional<RopeScaling>& scaling) {
  if (head_dim < 2 || head_dim % 2 != 0) {
    FailAt("rotary", s, Location(), StrCat("head size must be even, got ", head_dim));
  }
  const Dims shape = {positions, head_dim / 2};
  const Tensor pair = s.Iota({1, head_dim / 2}, 1, kF32);
  Tensor frequency = Pow(theta, pair * (-2.0 / static_cast<double>(head_dim)));  // [1, D/2]
  if (scaling) {
    // Wave lengths below context/high stay, above context/low are stretched by the factor, and
    // between them the two are blended.
    const Tensor waves = frequency * (scaling->original_context / (2 * std::numbers::pi));
    const double span = scaling->high_freq_factor - scaling->low_freq_factor;
    const Tensor keep = Clamp((waves - scaling->low_freq_factor) / span, 0, 1);
    const Tensor stretched = (1.0 - keep) * (frequency / scaling->factor);
    frequency = stretched + keep * frequency;
  }
  const Tensor angle = s.Iota(shape, 0, kF32) * frequency;
  const Tensor cos = Cos(angle), sin = Sin(angle);
  return {cos, sin};
}

Tensor Rotary(const Tensor& x, const RotaryTables& tables, Location loc) {
  const Scope s = x.scope();
  return Op("rotary", {x, tables.cos.In(s), tables.sin.In(s)}, {}, loc)[0];
}

Tensor DotProductAttention(const Scope& s, const Tensor& q, const Tensor& k, const Tensor& v,
                           const AttentionOptions& o) {
  Model& model = s.model();
  const bool drops = o.dropout > 0 && model.training();
  Tensors operands = {q.In(s), k, v, o.bias, o.q_segments, o.k_segments, o.key_lengths};
  AttrMap attrs = {{"causal", o.causal}, {"window", o.window}, {"q_offset", o.q_offset}};
  const double scale = o.scale != 0 ? o.scale : 1 / std::sqrt(static_cast<double>(q.dim(-1)));
  attrs["scale"] = scale;
  if (drops) {
    operands.push_back(model.Seed());
    operands.push_back(model.Step());
    attrs["dropout"] = o.dropout;
    attrs["stream"] = model.NewStream(s);
  }
  operands[0] = q.In(s);
  const Tensors results = EmitAt(s, Location(), [&](Builder& b) {
    Values values;
    for (const Tensor& t : operands) values.push_back(t.value());
    return b.Create("attention", values, attrs);
  });
  return results[0].In(s.parent());
}

Tensor Attention(const Scope& s, const Tensor& x, const AttentionConfig& c) {
  const auto fail = [&](const std::string& message) {
    FailAt("attention", s, Location(), message);
  };
  if (x.rank() != 3) fail(StrCat("takes [B,T,C], got ", x.shape()));
  const int64_t batch = x.dim(0), length = x.dim(1), width = x.dim(2);
  const int64_t h = c.heads, g = c.kv_heads == 0 ? h : c.kv_heads;
  if (h < 1 || g < 1 || h % g != 0) fail(StrCat(h, " heads do not share ", g, " kv heads"));
  if (c.head_dim == 0 && width % h != 0)
    fail(StrCat("width ", width, " is no multiple of ", h, " heads"));
  const int64_t d = c.head_dim == 0 ? width / h : c.head_dim;

  const Tensor packed = Linear(s / "qkv", x, (h + 2 * g) * d, {c.qkv_bias, c.init, c.bias_init})
                            .Reshape({batch, length, h + 2 * g, d});
  Tensor q = packed.Slice(2, 0, h);      // [B,T,H,D]
  Tensor k = packed.Slice(2, h, h + g);  // [B,T,G,D]
  const Tensor v = packed.Slice(2, h + g, h + 2 * g);
  if (c.qk_norm) {
    q = RmsNorm(s / "q_norm", q, c.norm_eps);
    k = RmsNorm(s / "k_norm", k, c.norm_eps);
  }
  if (c.rotary) {
    q = Rotary(q, *c.rotary);
    k = Rotary(k, *c.rotary);
  }
  AttentionOptions options = c.options;
  options.dropout = c.dropout;
  Tensor y = DotProductAttention(s / "core", q, k, v, options).Reshape({batch, length, h * d});
  y = Linear(s / "proj", y, width, {c.proj_bias, c.init_proj, c.bias_init});
  if (c.proj_dropout > 0) y = Dropout(s / "dropout", y, c.proj_dropout);
  return y.In(s.parent());
}

}  // namespace stator::dsl
