// Layers: functions that declare their parameters at a scope and return their result in the parent
// scope. Weights are [out, in] and are named `w`; biases `b`.
#pragma once

#include "frontend/dsl/ops.h"

#include <functional>
#include <string>

namespace stator::dsl {

struct LinearOptions {
  bool bias = true;
  // Empty: PyTorch's default, uniform in +-1/sqrt(in), for weight and bias alike.
  std::string weight_init = {};
  std::string bias_init = {};
};
// y = x W^T + b. x [.., in] -> [.., out]; s/w [out, in], s/b [out].
Tensor Linear(const Scope& s, const Tensor& x, int64_t out_features,
              const LinearOptions& options = {});
// The same with a weight [out, in] declared elsewhere: a tied head.
Tensor LinearWith(const Tensor& weight, const Tensor& x, Location loc = Location::current());

// The table s/w [rows, width].
Tensor EmbeddingTable(const Scope& s, int64_t rows, int64_t width,
                      const std::string& init = "normal(0.02)");
// Rows of `table` [rows, width] at token ids i32 [..] -> [.., width].
Tensor Embedding(const Tensor& table, const Tensor& ids, Location loc = Location::current());

struct NormOptions {
  double eps = 1e-5;
  bool bias = true;  // of a layer norm
};
// Over the last axis: (x - mean) / sqrt(var + eps) * s/w + s/b.
Tensor LayerNorm(const Scope& s, const Tensor& x, const NormOptions& options = {});
// Over the last axis: x / sqrt(mean(x^2) + eps) * s/w.
Tensor RmsNorm(const Scope& s, const Tensor& x, double eps = 1e-5);

// Zeroes elements with probability `rate` and scales the rest by 1/(1 - rate); nothing in a model
// made for evaluation. The mask is a function of (seed, step, s, element).
Tensor Dropout(const Scope& s, const Tensor& x, double rate);

struct MlpOptions {
  bool bias = true;
  std::function<Tensor(const Tensor&)> activation = {};  // default: GELU, tanh approximation
  std::string init = {};                                 // of up/w, as in LinearOptions
  std::string init_down = {};                            // of down/w
  std::string bias_init = {};
  double dropout = 0;
};
// down(activation(up(x))); s/up [hidden, C], s/down [C, hidden].
Tensor Mlp(const Scope& s, const Tensor& x, int64_t hidden, const MlpOptions& options = {});

struct SwiGluOptions {
  bool bias = false;
  std::string init = {}, init_down = {};
};
// down(silu(gate(x)) * up(x)) (Shazeer 2020). Gate and up are one projection: s/gate_up
// [2*hidden, C], gate first; s/down [C, hidden].
Tensor SwiGlu(const Scope& s, const Tensor& x, int64_t hidden, const SwiGluOptions& options = {});

}  // namespace stator::dsl
