// Matrix products on the CPU against op `matmul`'s reference arithmetic in f64.
#include "ir/base/str.h"
#include "runtime/cpu/matmul.h"
#include "tests/runtime/hand_plan.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stator {
namespace {

// The elements of a strided tensor over dense storage, in row-major order of its shape.
std::vector<double> Elements(const TensorRef& ref, const Tensor& storage) {
  std::vector<double> out;
  for (Index it(ref.type.shape); !it.done(); it.Next())
    out.push_back(storage.Get(it.Dot(ref.strides)));
  return out;
}

struct Problem {
  std::string name;
  DType in = DType::kF32, out = DType::kF32;
  Dims batch = {};
  int64_t m = 1, n = 1, k = 1;
  bool transpose_a = false, transpose_b = false, broadcast_b = false;
  bool addend = false, in_place = false, bias = false;
};

// `rows` x `columns` behind batch axes; `transposed` is the order in storage.
TensorRef Operand(HandPlan& plan, std::map<std::string, Tensor>& inputs, const std::string& name,
                  DType dtype, Dims batch, bool broadcast, int64_t rows, int64_t columns,
                  bool transposed) {
  Dims stored = broadcast ? Dims{} : batch;
  stored.push_back(transposed ? columns : rows), stored.push_back(transposed ? rows : columns);
  TensorRef ref = plan.Input(name, {dtype, stored});
  inputs[name] = RandomTensor(ref.type, inputs.size() + 5);
  if (transposed)
    std::swap(ref.strides[ref.strides.size() - 1], ref.strides[ref.strides.size() - 2]);
  if (broadcast) ref.strides.insert(ref.strides.begin(), batch.size(), 0);
  batch.push_back(rows), batch.push_back(columns);
  ref.type.shape = batch;
  return ref;
}

void Check(const Problem& p) {
  HandPlan plan;
  std::map<std::string, Tensor> inputs;
  MatMulCall call;
  call.a = Operand(plan, inputs, "a", p.in, p.batch, false, p.m, p.k, p.transpose_a);
  call.b = Operand(plan, inputs, "b", p.in, p.batch, p.broadcast_b, p.k, p.n, p.transpose_b);
  Dims shape = p.batch;
  shape.push_back(p.m), shape.push_back(p.n);
  call.d = plan.Output("d", {p.out, shape});
  if (p.addend) {
    call.c = plan.Input("c", {p.out, shape});
    inputs["c"] = RandomTensor(call.c.type, 77);
    if (p.in_place) {
      plan.Step(CopyCall{call.c.buffer, call.d.buffer, call.c.type.Bytes()});
      call.c = call.d;
    }
  }
  if (p.bias) {
    call.bias = plan.Input("bias", {DType::kF32, {p.n}});
    inputs["bias"] = RandomTensor(call.bias.type, 78);
    call.epilogue = Epilogue::kBias;
  }
  plan.Step(call, "matmul");

  const std::vector<double> a = Elements(call.a, inputs["a"]), b = Elements(call.b, inputs["b"]);
  Tensor expected(call.d.type);
  for (int64_t i = 0; i < expected.size(); ++i) {
    const int64_t column = i % p.n, row = i / p.n % p.m, batch = i / p.n / p.m;
    double sum = 0;
    for (int64_t k = 0; k < p.k; ++k) {
      sum += a[(batch * p.m + row) * p.k + k] * b[(batch * p.k + k) * p.n + column];
    }
    if (p.addend) sum += inputs["c"].f[i];
    if (p.bias) sum += inputs["bias"].f[column];
    expected.Set(i, sum);
  }
  const double tolerance = p.out == DType::kF64 ? 1e-13 : p.out == DType::kF32 ? 2e-5 : 1e-2;
  ExpectClose(RunOnce(plan.plan(), inputs).at("d"), expected, tolerance, tolerance * 4, p.name);
}

constexpr DType kF32 = DType::kF32, kBF16 = DType::kBF16, kF64 = DType::kF64, kF16 = DType::kF16;

TEST(CpuMatMul, plain_and_transposed) {
  Check({.name = "nn", .m = 33, .n = 17, .k = 40});
  Check({.name = "tn", .m = 33, .n = 17, .k = 40, .transpose_a = true});
  Check({.name = "nt", .m = 33, .n = 17, .k = 40, .transpose_b = true});
  Check({.name = "tt", .m = 33, .n = 17, .k = 40, .transpose_a = true, .transpose_b = true});
}

TEST(CpuMatMul, sizes_of_one) {
  for (const bool t : {false, true}) {
    Check({.name = "m1", .m = 1, .n = 17, .k = 9, .transpose_a = t, .transpose_b = t});
    Check({.name = "n1", .m = 13, .n = 1, .k = 9, .transpose_a = t, .transpose_b = t});
    Check({.name = "k1", .m = 13, .n = 17, .k = 1, .transpose_a = t, .transpose_b = t});
    Check({.name = "all1", .m = 1, .n = 1, .k = 1, .transpose_a = t, .transpose_b = t});
  }
}

TEST(CpuMatMul, batches) {
  Check({.name = "batch", .batch = {3}, .m = 8, .n = 9, .k = 10, .transpose_b = true});
  Check({.name = "two", .batch = {2, 3}, .m = 8, .n = 9, .k = 10});
  Check({.name = "shared b", .batch = {2, 3}, .m = 8, .n = 9, .k = 10, .broadcast_b = true});
  Check({.name = "shared b, transposed a",
         .batch = {4},
         .m = 8,
         .n = 9,
         .k = 10,
         .transpose_a = true,
         .broadcast_b = true});
}

TEST(CpuMatMul, addend_and_bias) {
  Check({.name = "c", .m = 20, .n = 24, .k = 16, .addend = true});
  Check({.name = "c is d", .m = 20, .n = 24, .k = 16, .addend = true, .in_place = true});
  Check({.name = "batched c", .batch = {3}, .m = 20, .n = 24, .k = 16, .addend = true});
  Check({.name = "bias", .m = 20, .n = 24, .k = 16, .bias = true});
  Check({.name = "bias and c",
         .batch = {2},
         .m = 20,
         .n = 24,
         .k = 16,
         .addend = true,
         .bias = true});
}

TEST(CpuMatMul, other_dtypes) {
  Check({.name = "bf16", .in = kBF16, .out = kBF16, .m = 32, .n = 48, .k = 64});
  Check({.name = "bf16 to f32",
         .in = kBF16,
         .out = kF32,
         .m = 32,
         .n = 48,
         .k = 64,
         .transpose_a = true});
  Check({.name = "bf16 to f32, added",
         .in = kBF16,
         .out = kF32,
         .m = 32,
         .n = 48,
         .k = 64,
         .addend = true,
         .in_place = true});
  Check({.name = "f64", .in = kF64, .out = kF64, .m = 37, .n = 150, .k = 140, .addend = true});
  Check({.name = "f64 bias",
         .in = kF64,
         .out = kF64,
         .batch = {2},
         .m = 5,
         .n = 6,
         .k = 7,
         .transpose_b = true,
         .bias = true});
  Check({.name = "f16", .in = kF16, .out = kF16, .m = 5, .n = 6, .k = 7});
}

TEST(CpuMatMul, nothing_to_add_up_gives_the_addend) {
  Check({.name = "k0", .m = 4, .n = 5, .k = 0});
  Check({.name = "k0 c", .m = 4, .n = 5, .k = 0, .addend = true});
  Check({.name = "m0", .m = 0, .n = 5, .k = 3});
}

TEST(CpuMatMul, gelu_epilogue_keeps_the_value_before) {
  HandPlan plan;
  std::map<std::string, Tensor> inputs;
  MatMulCall call;
  call.a = Operand(plan, inputs, "a", kF32, {}, false, 5, 4, false);
  call.b = Operand(plan, inputs, "b", kF32, {}, false, 4, 3, false);
  call.d = plan.Output("d", {kF32, {5, 3}}), call.aux = plan.Output("aux", {kF32, {5, 3}});
  call.epilogue = Epilogue::kGeluTanhAux;
  plan.Step(call);
  const auto out = RunOnce(plan.plan(), inputs);
  for (int64_t i = 0; i < 15; ++i) {
    const double x = out.at("aux").f[i];
    EXPECT_NEAR(out.at("d").f[i],
                0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x))), 1e-5);
  }
}

TEST(CpuMatMul, large_f32_uses_the_library) {
  HandPlan plan;
  std::map<std::string, Tensor> inputs;
  MatMulCall call;
  call.a = Operand(plan, inputs, "a", kF32, {}, false, 128, 64, true);
  call.b = Operand(plan, inputs, "b", kF32, {}, false, 64, 96, true);
  call.d = plan.Output("d", {kF32, {128, 96}});
  const CpuMemory memory(plan.plan());
  EXPECT_STRNE(MakeCpuMatMul(call, memory)->implementation(), "plain");
}

}  // namespace
}  // namespace stator
