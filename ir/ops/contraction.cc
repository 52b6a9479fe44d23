// Matrix products.
#include "ir/ops/helpers.h"
#include "ir/ops/ops.h"

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
  if (a.dtype != b.dtype) BadOperands(op, "operand dtypes differ", a, b);
  if (a.rank() < 2 || a.rank() != b.rank()) {
    BadOperands(op, "needs two operands of equal rank >= 2", a, b);
  }
  if (!IsFloat(op.Dtype("out"))) BadOperand(op, "out must be a float dtype", {op.Dtype("out"), {}});
  Type out{op.Dtype("out"), a.shape};
  for (int i = 0; i < a.rank() - 2; ++i) {
    if (a.shape[i] != b.shape[i]) {
      BadOperands(op, "batch axes differ", a, b);
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

void MatMulReference(const OpView& op, Operands in, Results out) {
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
        const DType t = x.dtype();
        return {ta ? b.MatMul(w, d, tb, true, t) : b.MatMul(d, w, false, !tb, t),
                tb ? b.MatMul(d, x, true, ta, t) : b.MatMul(x, d, !ta, false, t)};
      },
      .reference = MatMulReference,
      .flops =
          [](const OpView& op) {
            return 2.0 * static_cast<double>(op.type(0).NumElements()) *
                   static_cast<double>(DimsOf(op).n);
          },
      .samples = {"(f32[5,7], f32[7,3])", "(f32[2,5,7], f32[2,3,7]) {transpose_b=true}",
                  "(f32[7,5], f32[7,3]) {transpose_a=true}", "(bf16[16,8], bf16[8,24]) {out=bf16}",
                  "(bf16[9,8], bf16[8,5])",
                  "(f32[2,3,4,5], f32[2,3,6,4]) {transpose_a=true, transpose_b=true}",
                  "(f64[3,4], f64[4,2]) {out=f64}", "(f16[1,9], f16[9,1]) {out=f16}",
                  "(f32[0,4], f32[4,3])", "(f32[2,0], f32[0,3])", "(f32[1,1,1], f32[1,1,1])"},
  });
}

}  // namespace stator
