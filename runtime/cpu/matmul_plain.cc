// Matrix products by our own loops: for dtypes and strides that oneDNN does not take. Operands are
// widened a panel at a time, products are summed in f32 (f64 for f64), and the result is rounded
// once.
#include "ir/base/error.h"
#include "runtime/cpu/matmul.h"
#include "runtime/cpu/numbers.h"

#include <algorithm>
#include <vector>

namespace stator {
namespace {

constexpr int64_t kRows = 32, kColumns = 128, kDepth = 128;  // of a tile

template <typename Acc>
class PlainMatMul : public CpuMatMul {
 public:
  PlainMatMul(const MatMulCall& call, const CpuMemory& memory)
      : call_(call),
        shape_(SimplifyMatMul(call)),
        a_(memory.At(call.a.buffer)),
        b_(memory.At(call.b.buffer)),
        c_(memory.At(call.c.buffer)),
        bias_(memory.At(call.bias.buffer)),
        d_(memory.At(call.d.buffer)) {}

  const char* implementation() const override { return "plain"; }

  void Run() override {
    const MatMulShape& s = shape_;
    if (s.m == 0 || s.n == 0) return;
    const int64_t down = (s.m + kRows - 1) / kRows, across = (s.n + kColumns - 1) / kColumns;
    int64_t batches = 1;
    for (const int64_t b : s.batch) batches *= b;
    const int64_t tiles = batches * down * across;
#pragma omp parallel
    {
      std::vector<Acc> sum(kRows * kColumns), left(kRows * kDepth), right(kDepth * kColumns);
#pragma omp for schedule(dynamic)
      for (int64_t t = 0; t < tiles; ++t) {
        RunTile(t / (down * across), t / across % down * kRows, t % across * kColumns, sum.data(),
                left.data(), right.data());
      }
    }
  }

 private:
  int64_t BatchOffset(const Dims& strides, int64_t batch) const {
    int64_t at = 0;
    for (int i = static_cast<int>(shape_.batch.size()) - 1; i >= 0; --i) {
      at += batch % shape_.batch[i] * strides[i];
      batch /= shape_.batch[i];
    }
    return at;
  }

  static void Widen(DType dtype, const char* from, int64_t at, int64_t rows, int64_t row_stride,
                    int64_t columns, int64_t column_stride, Acc* to, int64_t to_stride) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        to[i * to_stride + j] =
            static_cast<Acc>(LoadNumber(dtype, from, at + i * row_stride + j * column_stride));
      }
    }
  }

  void RunTile(int64_t batch, int64_t row, int64_t column, Acc* sum, Acc* left, Acc* right) const {
    const MatMulShape& s = shape_;
    const size_t r = s.batch.size();
    const int64_t rows = std::min(kRows, s.m - row), columns = std::min(kColumns, s.n - column);
    const int64_t a = BatchOffset(s.a, batch) + row * s.a[r];
    const int64_t b = BatchOffset(s.b, batch) + column * s.b[r + 1];
    std::fill(sum, sum + kRows * kColumns, Acc{0});
    for (int64_t k = 0; k < s.k; k += kDepth) {
      const int64_t depth = std::min(kDepth, s.k - k);
      Widen(call_.a.type.dtype, a_, a + k * s.a[r + 1], rows, s.a[r], depth, s.a[r + 1], left,
            kDepth);
      Widen(call_.b.type.dtype, b_, b + k * s.b[r], depth, s.b[r], columns, s.b[r + 1], right,
            kColumns);
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t p = 0; p < depth; ++p) {
          const Acc x = left[i * kDepth + p];
#pragma omp simd
          for (int64_t j = 0; j < columns; ++j)
            sum[i * kColumns + j] += x * right[p * kColumns + j];
        }
      }
    }
    const int64_t c = BatchOffset(s.c, batch), d = BatchOffset(s.d, batch);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        double v = sum[i * kColumns + j];
        const int64_t at_m = row + i, at_n = column + j;
        if (call_.epilogue == Epilogue::kBias) {
          v += LoadNumber(call_.bias.type.dtype, bias_, at_n * call_.bias.strides.back());
        }
        if (call_.c) v += LoadNumber(call_.c.type.dtype, c_, c + at_m * s.c[r] + at_n * s.c[r + 1]);
        StoreNumber(call_.d.type.dtype, d_, d + at_m * s.d[r] + at_n * s.d[r + 1], v);
      }
    }
  }

  MatMulCall call_;
  MatMulShape shape_;
  const char *a_, *b_, *c_, *bias_;
  char* d_;
};

}  // namespace

std::unique_ptr<CpuMatMul> MakePlainMatMul(const MatMulCall& call, const CpuMemory& memory) {
  for (const TensorRef* t : {&call.a, &call.b, &call.d, &call.c, &call.bias}) {
    if (*t && !IsFloat(t->type.dtype)) {
      Fail(ErrorCode::kUnsupported, "matmul of ", t->type.ToString());
    }
  }
  const bool wide = call.a.type.dtype == DType::kF64 || call.d.type.dtype == DType::kF64;
  if (wide) return std::make_unique<PlainMatMul<double>>(call, memory);
  return std::make_unique<PlainMatMul<float>>(call, memory);
}

}  // namespace stator
