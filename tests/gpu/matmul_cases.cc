#include "tests/gpu/matmul_cases.h"

#include "ir/type.h"

#include <cmath>

namespace stator::gpu_test {
namespace {

int64_t Product(const Dims& dims) { return NumElements(dims); }

double Gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

}  // namespace

Laid LayOut(Layout layout, const Dims& batch, int64_t rows, int64_t cols) {
  Laid laid;
  laid.shape = batch;
  laid.shape.push_back(rows);
  laid.shape.push_back(cols);
  Dims& s = laid.strides;
  switch (layout) {
    case Layout::kRows:
      s = DenseStrides(laid.shape);
      break;
    case Layout::kColumns: {
      s = DenseStrides(laid.shape);
      s[s.size() - 2] = 1, s[s.size() - 1] = rows;
      break;
    }
    case Layout::kPaddedRows: {
      Dims padded = laid.shape;
      padded.back() = cols + 8;
      s = DenseStrides(padded);
      laid.elements = Product(padded);
      return laid;
    }
    case Layout::kHeads: {  // [outer.., T, H, D], the last batch axis being H
      Dims storage = batch;
      storage.back() = rows;
      storage.push_back(batch.back());
      storage.push_back(cols);
      const Dims dense = DenseStrides(storage);
      s = dense;
      s[s.size() - 3] = dense[dense.size() - 2], s[s.size() - 2] = dense[dense.size() - 3];
      break;
    }
    case Layout::kShared: {
      s = DenseStrides(laid.shape);
      for (size_t i = 0; i + 2 < s.size(); ++i) s[i] = 0;
      laid.elements = rows * cols;
      return laid;
    }
  }
  laid.elements = Product(laid.shape);
  return laid;
}

std::vector<double> Gather(const TensorRef& view, const std::vector<double>& storage) {
  std::vector<double> out(static_cast<size_t>(view.type.NumElements()));
  const Dims dense = DenseStrides(view.type.shape);
  for (size_t i = 0; i < out.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i), at = 0;
    for (size_t axis = 0; axis < dense.size(); ++axis) {
      at += rest / dense[axis] * view.strides[axis];
      rest %= dense[axis];
    }
    out[i] = storage[static_cast<size_t>(at)];
  }
  return out;
}

MatMulReference ReferenceMatMul(const MatMulCall& call, const std::vector<double>& a,
                                const std::vector<double>& b, const std::vector<double>& c,
                                const std::vector<double>& bias) {
  const std::vector<double> x = Gather(call.a, a), y = Gather(call.b, b);
  const int64_t m = call.d.type.dim(-2), n = call.d.type.dim(-1), k = call.a.type.dim(-1);
  MatMulReference out;
  out.d.assign(static_cast<size_t>(call.d.type.NumElements()), 0);
  const std::vector<double> start = call.c ? Gather(call.c, c) : out.d;
  const int64_t batch = m * n == 0 ? 0 : static_cast<int64_t>(out.d.size()) / (m * n);
  for (int64_t g = 0; g < batch; ++g) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const size_t at = static_cast<size_t>((g * m + i) * n + j);
        double sum = start[at];
        for (int64_t l = 0; l < k; ++l) {
          sum += x[static_cast<size_t>((g * m + i) * k + l)] *
                 y[static_cast<size_t>((g * k + l) * n + j)];
        }
        if (call.bias) sum += bias[static_cast<size_t>(j)];
        out.d[at] = sum;
      }
    }
  }
  if (!call.aux) return out;
  out.aux = out.d;
  for (double& v : out.d) v = Gelu(v);
  return out;
}

std::vector<MatMulCase> MatMulCases() {
  using L = Layout;
  const DType f32 = DType::kF32, bf16 = DType::kBF16, f16 = DType::kF16, f64 = DType::kF64;
  std::vector<MatMulCase> cases;
  for (const L a : {L::kRows, L::kColumns, L::kPaddedRows}) {
    for (const L b : {L::kRows, L::kColumns, L::kPaddedRows}) {
      for (const L d : {L::kRows, L::kColumns, L::kPaddedRows}) {
        for (const DType in : {f32, bf16}) {
          cases.push_back({"layouts", {}, 48, 40, 56, a, b, d, in, in});
        }
      }
    }
  }
  for (const L a : {L::kRows, L::kColumns, L::kHeads}) {
    for (const L b : {L::kRows, L::kColumns, L::kHeads, L::kShared}) {
      cases.push_back({"batches", {2, 3}, 16, 24, 32, a, b, L::kRows, f32, f32});
      cases.push_back({"batches", {2, 3}, 16, 24, 32, a, b, L::kHeads, bf16, bf16});
    }
  }
  for (const CKind c : {CKind::kSeparate, CKind::kInPlace}) {
    cases.push_back({"beta", {}, 64, 32, 96, L::kColumns, L::kRows, L::kRows, bf16, f32, c});
    cases.push_back({"beta", {}, 64, 32, 96, L::kRows, L::kColumns, L::kRows, bf16, bf16, c});
    cases.push_back({"beta", {4}, 16, 32, 24, L::kRows, L::kRows, L::kPaddedRows, f32, f32, c});
    cases.push_back({"beta", {4}, 16, 32, 24, L::kRows, L::kShared, L::kRows, f16, f16, c});
  }
  for (const DType in : {bf16, f16, f64}) {
    cases.push_back(
        {"dtypes", {}, 33, 17, 65, L::kRows, L::kRows, L::kRows, in, in == f64 ? f64 : f32});
    cases.push_back({"dtypes", {3}, 5, 1, 7, L::kRows, L::kColumns, L::kRows, in, in});
    cases.push_back({"dtypes", {}, 1, 96, 64, L::kRows, L::kRows, L::kRows, in, in});
    cases.push_back({"dtypes", {}, 24, 8, 1, L::kRows, L::kRows, L::kRows, in, in});
  }
  for (const Epilogue e : {Epilogue::kBias, Epilogue::kGeluTanhAux, Epilogue::kBiasGeluTanhAux}) {
    cases.push_back({"epilogues",
                     {},
                     64,
                     128,
                     32,
                     L::kRows,
                     L::kColumns,
                     L::kRows,
                     bf16,
                     bf16,
                     CKind::kNone,
                     e});
    cases.push_back({"epilogues",
                     {2, 32},
                     4,
                     64,
                     32,
                     L::kRows,
                     L::kShared,
                     L::kRows,
                     bf16,
                     bf16,
                     CKind::kNone,
                     e});
  }
  return cases;
}

}  // namespace stator::gpu_test
