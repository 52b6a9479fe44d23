// Matrix products.
#include "ir/base/error.h"
#include "ir/builder.h"
#include "ir/ops/ops.h"
#include "ir/tensor.h"

namespace stator {
namespace {

struct MatMulDims {
  int64_t m, n, k;
};

MatMulDims DimsOf(const OpView& op) {
  const Dims &a = op.type(0).shape, &b = op.type(1).shape;
  const bool ta = op.Bool("transpose_a"), tb = op.Bool("transpose_b");
  const size_t r = a.size();
  return {a[r - (ta ? 1 : 2)], b[r - (tb ? 2 : 1)], a[r - (ta ? 2 : 1)]};
}

Types InferMatMul(const OpView& op) {
  const Type &a = op.type(0), &b = op.type(1);
  if (a.dtype != b.dtype) {
    Fail(ErrorCode::kInvalidArgument, op.Where(), ": operand dtypes differ: ", a.ToString(), " vs ",
         b.ToString());
  }
  if (a.rank() < 2 || a.rank() != b.rank()) {
    Fail(ErrorCode::kInvalidArgument, op.Where(), ": needs two operands of equal rank >= 2, got ",
         a.ToString(), " and ", b.ToString());
  }
  Type out{op.Dtype("out"), a.shape};
  for (int i = 0; i < a.rank() - 2; ++i) {
    if (a.shape[i] != b.shape[i]) {
      Fail(ErrorCode::kInvalidArgument, op.Where(), ": batch axes differ: ", a.ToString(), " vs ",
           b.ToString());
    }
  }
  const MatMulDims d = DimsOf(op);
  const int64_t kb = b.shape[b.rank() - (op.Bool("transpose_b") ? 1 : 2)];
  if (d.k != kb) {
    Fail(ErrorCode::kInvalidArgument, op.Where(), ": inner dimensions differ: ", d.k, " vs ", kb,
         " in ", a.ToString(), " x ", b.ToString());
  }
  out.shape[a.rank() - 2] = d.m;
  out.shape[a.rank() - 1] = d.n;
  return {out};
}

void MatMulReference(const OpView& op, std::span<const Tensor* const> in, std::span<Tensor> out) {
  const MatMulDims d = DimsOf(op);
  const bool ta = op.Bool("transpose_a"), tb = op.Bool("transpose_b");
  const int64_t per = d.m * d.n;
  const int64_t batch = per == 0 ? 0 : out[0].size() / per;
  for (int64_t g = 0; g < batch; ++g) {
    for (int64_t i = 0; i < d.m; ++i) {
      for (int64_t j = 0; j < d.n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < d.k; ++k) {
          sum += in[0]->f[g * d.m * d.k + (ta ? k * d.m + i : i * d.k + k)] *
                 in[1]->f[g * d.k * d.n + (tb ? j * d.k + k : k * d.n + j)];
        }
        out[0].Set(g * per + i * d.n + j, sum);
      }
    }
  }
}

}  // namespace

void AddContractionOps(OpRegistry& ops) {
  // [.., M, K] x [.., K, N] -> [.., M, N]; `transpose_*` say the operand is stored with its last
  // two axes swapped. f32 (or wider) accumulation, rounded once to `out`.
  ops.Add({
      .name = "matmul",
      .op_class = OpClass::kContraction,
      .operands = {{"a", TypeSet::kAnyFloat}, {"b", TypeSet::kAnyFloat}},
      .attrs = {{"transpose_a", false}, {"transpose_b", false}, {"out", DType::kF32}},
      .precision = Precision::kLow,
      .tolerance = true,
      .infer = InferMatMul,
      // C = A B: dA = dC B^T, dB = A^T dC, each in the storage order of its operand.
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        const Value x = op.in(0), w = op.in(1), d = b.Cast(dy[0], x.dtype());
        const bool ta = op.Bool("transpose_a"), tb = op.Bool("transpose_b");
        const Value dx = ta ? b.MatMul(w, d, tb, true, x.dtype()) : b.MatMul(d, w, false, !tb, x.dtype());
        const Value dw = tb ? b.MatMul(d, x, true, ta, w.dtype()) : b.MatMul(x, d, !ta, false, w.dtype());
        return {dx, dw};
      },
      .reference = MatMulReference,
      .flops =
          [](const OpView& op) {
            const MatMulDims d = DimsOf(op);
            return 2.0 * static_cast<double>(op.type(0).NumElements()) * static_cast<double>(d.n);
          },
      .samples = {"(f32[5,7], f32[7,3])", "(f32[2,5,7], f32[2,3,7]) {transpose_b=true}",
                  "(f32[7,5], f32[7,3]) {transpose_a=true}",
                  "(bf16[16,8], bf16[8,24]) {out=bf16}"},
  });
}

}  // namespace stator
