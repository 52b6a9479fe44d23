// Elementwise ops: one scalar expression each. Operands have equal shapes; Builder broadcasts.
#include <cmath>

#include "ir/base/error.h"
#include "ir/builder.h"
#include "ir/ops/ops.h"
#include "ir/tensor.h"

namespace stator {
namespace {

using Reference = decltype(OpDef::reference);
using Gradient = decltype(OpDef::grad);

// Evaluates in f64 and rounds once. For + - * / and sqrt on f32 that is exactly the f32 result.
template <typename F>
Reference Unary(F f) {
  return [f](const OpView&, std::span<const Tensor* const> in, std::span<Tensor> out) {
    for (int64_t k = 0; k < out[0].size(); ++k) out[0].Set(k, f(in[0]->Get(k)));
  };
}

// `f` is generic: called on doubles for floats and on int64_t for integers.
template <typename F>
Reference Binary(F f) {
  return [f](const OpView&, std::span<const Tensor* const> in, std::span<Tensor> out) {
    const bool is_float = IsFloat(in[0]->type.dtype);
    for (int64_t k = 0; k < out[0].size(); ++k) {
      if (is_float) {
        out[0].Set(k, static_cast<double>(f(in[0]->f[k], in[1]->f[k])));
      } else {
        out[0].SetInt(k, static_cast<int64_t>(f(in[0]->i[k], in[1]->i[k])));
      }
    }
  };
}

}  // namespace

void AddElementwiseOps(OpRegistry& ops) {
  ops.Add({
      .name = "add",
      .operands = {{"a", TypeSet::kAnyNumber}, {"b", TypeSet::kAnyNumber}},
      .scalar = "a + b",
      .grad = [](Builder&, const OpView&, const Values& dy) { return Values{dy[0], dy[0]}; },
      .reference = Binary([](auto a, auto b) { return a + b; }),
      .samples = {"(f32[4,8], f32[4,8])", "(bf16[3,5], bf16[3,5])", "(i32[7], i32[7])"},
  });
  ops.Add({
      .name = "mul",
      .operands = {{"a", TypeSet::kAnyNumber}, {"b", TypeSet::kAnyNumber}},
      .scalar = "a * b",
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        return {b.Mul(dy[0], op.in(1)), b.Mul(dy[0], op.in(0))};
      },
      .reference = Binary([](auto a, auto b) { return a * b; }),
      .samples = {"(f32[4,8], f32[4,8])", "(bf16[3,5], bf16[3,5])"},
  });
  ops.Add({
      .name = "exp",
      .operands = {{"x", TypeSet::kAnyFloat}},
      .scalar = "st_exp(x)",
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        return {b.Mul(dy[0], op.out(0))};
      },
      .reference = Unary([](double x) { return std::exp(x); }),
      .samples = {"(f32[4,8])", "(bf16[3,5])"},
  });
  // Rounds to nearest even; float to integer truncates; to bool tests for non-zero.
  ops.Add({
      .name = "cast",
      .operands = {{"x"}},
      .attrs = {{"to", DType::kF32, true}},
      .infer = [](const OpView& op) { return Types{{op.Dtype("to"), op.type(0).shape}}; },
      .scalar = "x",
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        if (!IsFloat(op.type(0).dtype)) return {Value{}};
        return {b.Cast(dy[0], op.type(0).dtype)};
      },
      .reference = [](const OpView&, std::span<const Tensor* const> in, std::span<Tensor> out) {
        for (int64_t k = 0; k < out[0].size(); ++k) {
          if (IsFloat(in[0]->type.dtype)) {
            out[0].Set(k, in[0]->f[k]);
          } else {
            out[0].SetInt(k, in[0]->i[k]);
          }
        }
      },
      .samples = {"(f32[4,8]) {to=bf16}", "(bf16[4]) {to=f32}", "(f32[5]) {to=i32}",
                  "(i32[5]) {to=f32}"},
  });
}

}  // namespace stator
