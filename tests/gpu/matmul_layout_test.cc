// The mapping to cuBLASLt against a host model of its conventions; no GPU needed.
#if STATOR_WITH_CUDA
#include "runtime/cuda/matmul_layout.h"

#include "ir/base/error.h"
#include "tests/gpu/matmul_cases.h"
#include "tests/gpu/plan_maker.h"

#include <gtest/gtest.h>

namespace stator::gpu_test {
namespace {

// D = op(A) op(B) + C over column-major matrices, as cuBLASLt's documentation has it.
struct HostLt {
  const LtProblem& p;
  const std::vector<double>* in[kLtD];
  std::vector<double>& d;

  void Run(size_t depth, const int64_t (&at)[kLtOperands]) {
    if (depth < p.loops.size()) {
      for (int64_t i = 0; i < p.loops[depth].count; ++i) {
        int64_t here[kLtOperands];
        for (int o = 0; o < kLtOperands; ++o) here[o] = at[o] + i * p.loops[depth].stride[o];
        Run(depth + 1, here);
      }
      return;
    }
    const auto get = [&](LtOperand o, int64_t g, int64_t row, int64_t col) {
      const LtMatrix& m = p.matrix[o];
      EXPECT_TRUE(row < m.rows && col < m.cols && m.ld >= m.rows);
      return (*in[o])[static_cast<size_t>(at[o] + g * m.batch_stride + row + col * m.ld)];
    };
    const LtMatrix &a = p.matrix[kLtA], &out = p.matrix[kLtD];
    const int64_t k = p.transpose_a ? a.rows : a.cols;
    for (int64_t g = 0; g < p.batch; ++g) {
      for (int64_t i = 0; i < out.rows; ++i) {
        for (int64_t j = 0; j < out.cols; ++j) {
          double sum = p.has_c ? get(kLtC, g, i, j) : 0;
          for (int64_t l = 0; l < k; ++l) {
            sum += (p.transpose_a ? get(kLtA, g, l, i) : get(kLtA, g, i, l)) *
                   (p.transpose_b ? get(kLtB, g, j, l) : get(kLtB, g, l, j));
          }
          d[static_cast<size_t>(at[kLtD] + g * out.batch_stride + i + j * out.ld)] = sum;
        }
      }
    }
  }
};

TensorRef Ref(const Laid& laid, DType dtype) {
  return {{Space::kArena, 0}, {dtype, laid.shape}, laid.strides};
}

TEST(MatMulLayout, agrees_with_the_definition) {
  uint64_t seed = 1;
  for (const MatMulCase& c : MatMulCases()) {
    if (c.epilogue != Epilogue::kNone) continue;
    SCOPED_TRACE(c.name);
    const Laid a = LayOut(c.a, c.batch, c.m, c.k), b = LayOut(c.b, c.batch, c.k, c.n);
    const Laid d = LayOut(c.d, c.batch, c.m, c.n);
    MatMulCall call;
    call.a = Ref(a, c.in), call.b = Ref(b, c.in), call.d = Ref(d, c.out);
    if (c.c != CKind::kNone) call.c = call.d;
    const auto x = Random(DType::kF64, a.elements, seed++),
               y = Random(DType::kF64, b.elements, seed++);
    const auto start = Random(DType::kF64, d.elements, seed++);
    const LtProblem problem = MapMatMul(call, "test");
    std::vector<double> result(start.size());
    HostLt lt{problem, {problem.swapped ? &y : &x, problem.swapped ? &x : &y, &start}, result};
    lt.Run(0, {});
    const MatMulReference want = ReferenceMatMul(call, x, y, start, {});
    EXPECT_LT(RelativeError(Gather(call.d, result), want.d), 1e-12) << problem.Key();
  }
}

TEST(MatMulLayout, folds_the_batch_into_rows_when_the_right_side_is_shared) {
  MatMulCall call;
  call.a = Ref(LayOut(Layout::kRows, {8, 16}, 32, 64), DType::kBF16);
  call.b = Ref(LayOut(Layout::kShared, {8, 16}, 64, 24), DType::kBF16);
  call.d = Ref(LayOut(Layout::kRows, {8, 16}, 32, 24), DType::kBF16);
  const LtProblem p = MapMatMul(call, "test");
  EXPECT_EQ(p.batch, 1);
  EXPECT_TRUE(p.loops.empty());
  EXPECT_EQ(p.matrix[kLtD].cols, 8 * 16 * 32);
}

TEST(MatMulLayout, knows_what_pointers_are_aligned_to) {
  MatMulCall call;
  call.a = Ref(LayOut(Layout::kRows, {}, 32, 64), DType::kBF16);
  call.b = Ref(LayOut(Layout::kRows, {}, 64, 24), DType::kBF16);
  call.d = Ref(LayOut(Layout::kRows, {}, 32, 24), DType::kBF16);
  call.a.buffer.offset = 16;
  const LtProblem p = MapMatMul(call, "test");
  EXPECT_EQ(p.matrix[kLtB].alignment, 16);  // a is cuBLASLt's B
  EXPECT_EQ(p.matrix[kLtA].alignment, 256);
}

TEST(MatMulLayout, refuses_what_has_no_layout) {
  MatMulCall call;
  call.a = Ref(LayOut(Layout::kRows, {}, 4, 8), DType::kF32);
  call.b = Ref(LayOut(Layout::kRows, {}, 8, 4), DType::kF32);
  call.d = Ref(LayOut(Layout::kRows, {}, 4, 4), DType::kF32);
  MatMulCall bad = call;
  bad.a.strides = {16, 2};
  EXPECT_THROW(MapMatMul(bad, "test"), Error);
  bad = call;
  bad.a.strides = {0, 1};  // rows overlap
  EXPECT_THROW(MapMatMul(bad, "test"), Error);
  bad = call;
  bad.d = Ref(LayOut(Layout::kColumns, {}, 4, 4), DType::kF32);
  bad.epilogue = Epilogue::kBias;
  bad.bias = {{Space::kArena, 0}, {DType::kF32, {4}}, {1}};
  EXPECT_THROW(MapMatMul(bad, "test"), Error);
}

}  // namespace
}  // namespace stator::gpu_test
#endif
