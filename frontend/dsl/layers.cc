#include "frontend/dsl/layers.h"

#include "frontend/dsl/emit.h"
#include "ir/base/error.h"

#include <cmath>

namespace stator::dsl {
namespace {

int64_t Features(std::string_view layer, const Scope& s, const Tensor& x) {
  if (x.rank() == 0) FailAt(layer, s, Location(), "takes at least one axis, got a scalar");
  return x.shape().back();
}

std::string DefaultInit(int64_t fan_in) {
  return StrCat("uniform(", 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, fan_in))), ')');
}

}  // namespace

Tensor Linear(const Scope& s, const Tensor& x, int64_t out_features, const LinearOptions& options) {
  const int64_t in = Features("linear", s, x);
  const std::string init = options.weight_init.empty() ? DefaultInit(in) : options.weight_init;
  const Tensor weight = s.Parameter("w", {out_features, in}, init);
  // [N, in]: the bias is added to the flat rows, where a matmul's epilogue can take it.
  Tensor y =
      MatMul(x.In(s).Reshape({x.size() / std::max<int64_t>(1, in), in}), weight, false, true);
  if (options.bias) {
    y = y + s.Parameter("b", {out_features},
                        options.bias_init.empty() ? DefaultInit(in) : options.bias_init);
  }
  Dims shape = x.shape();
  shape.back() = out_features;
  return y.Reshape(shape).In(s.parent());
}

Tensor LinearWith(const Tensor& weight, const Tensor& x, Location loc) {
  const Scope s = x.scope();
  if (weight.rank() != 2 || x.rank() == 0 || weight.dim(1) != x.shape().back()) {
    FailAt("linear", s, loc, StrCat("weight ", weight.shape(), " does not fit input ", x.shape()));
  }
  return MatMul(x, weight.In(s), false, true, loc);
}

Tensor EmbeddingTable(const Scope& s, int64_t rows, int64_t width, const std::string& init) {
  return s.Parameter("w", {rows, width}, init);
}

Tensor Embedding(const Tensor& table, const Tensor& ids, Location loc) {
  const Scope s = table.scope();
  if (table.rank() != 2) {
    FailAt("embedding", s, loc, StrCat("table must have two axes, got ", table.shape()));
  }
  const Tensor rows = Gather(table, ids.In(s), 0, loc);
  return rows.In(s.parent());
}

Tensor LayerNorm(const Scope& s, const Tensor& x, const NormOptions& options) {
  const int64_t width = Features("layer_norm", s, x);
  const Tensor scale = s.Parameter("w", {width}, "ones");
  const Tensor bias = options.bias ? s.Parameter("b", {width}, "zeros") : Tensor();
  const Tensor y = Op("layer_norm", {x.In(s), scale, bias}, {{"eps", options.eps}})[0];
  return y.In(s.parent());
}

Tensor RmsNorm(const Scope& s, const Tensor& x, double eps) {
  const Tensor scale = s.Parameter("w", {Features("rms_norm", s, x)}, "ones");
  return Op("rms_norm", {x.In(s), scale}, {{"eps", eps}})[0].In(s.parent());
}

Tensor Dropout(const Scope& s, const Tensor& x, double rate) {
  if (!(rate >= 0 && rate < 1)) {
    FailAt("dropout", s, Location(), StrCat("rate must be in [0, 1), got ", rate));
  }
  Model& model = s.model();
  if (rate == 0 || !model.training()) return x.In(s.parent());
  const Tensor seed = model.Seed(), step = model.Step();
  const Tensors y =
      Op("dropout", {x, seed, step.In(s)}, {{"rate", rate}, {"stream", model.NewStream(s)}});
  return y[0].In(s.parent());
}

Tensor Mlp(const Scope& s, const Tensor& x, int64_t hidden, const MlpOptions& options) {
  const int64_t width = Features("mlp", s, x);
  const LinearOptions up{options.bias, options.init, options.bias_init};
  const LinearOptions down{options.bias, options.init_down, options.bias_init};
  Tensor y = Linear(s / "up", x, hidden, up);
  y = options.activation ? options.activation(y) : GeluTanh(y);
  y = Linear(s / "down", y, width, down);
  if (options.dropout > 0) y = Dropout(s / "dropout", y, options.dropout);
  return y.In(s.parent());
}

Tensor SwiGlu(const Scope& s, const Tensor& x, int64_t hidden, const SwiGluOptions& options) {
  const int64_t width = Features("swiglu", s, x);
  const Tensor packed = Linear(s / "gate_up", x, 2 * hidden, {options.bias, options.init, {}});
  const Tensor gate = packed.Slice(-1, 0, hidden), up = packed.Slice(-1, hidden, 2 * hidden);
  const Tensor y = Silu(gate) * up;
  return Linear(s / "down", y, width, {options.bias, options.init_down, {}}).In(s.parent());
}

}  // namespace stator::dsl
