#include "runtime/cpu/matmul.h"

#include "ir/base/error.h"
#include "runtime/cpu/numbers.h"

#include <cmath>

namespace stator {
namespace {

// Strides of axes of size 1 say nothing; 0 lets any merge happen.
Dims Cleaned(const TensorRef& tensor, const Dims& shape) {
  Dims strides = tensor.strides;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) strides[i] = 0;
  }
  return strides;
}

// Gelu by tanh, after a product that went to `aux`: d = gelu(aux).
class GeluAfter : public CpuMatMul {
 public:
  GeluAfter(std::unique_ptr<CpuMatMul> product, const MatMulCall& call, const CpuMemory& memory)
      : product_(std::move(product)),
        call_(call),
        from_(memory.At(call.aux.buffer)),
        to_(memory.At(call.d.buffer)) {}

  int64_t scratch_bytes() const override { return product_->scratch_bytes(); }
  void BindScratch(char* p) override { product_->BindScratch(p); }
  const char* implementation() const override { return product_->implementation(); }

  void Run() override {
    product_->Run();
    const Dims& shape = call_.d.type.shape;
    const int64_t n = shape.back(), rows = n == 0 ? 0 : call_.d.type.NumElements() / n;
    const int64_t step_from = call_.aux.strides.back(), step_to = call_.d.strides.back();
#pragma omp parallel for
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t from = RowOffset(call_.aux.strides, shape, r);
      const int64_t to = RowOffset(call_.d.strides, shape, r);
      for (int64_t j = 0; j < n; ++j) {
        const double x = LoadNumber(call_.aux.type.dtype, from_, from + j * step_from);
        const double y = 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
        StoreNumber(call_.d.type.dtype, to_, to + j * step_to, y);
      }
    }
  }

 private:
  static int64_t RowOffset(const Dims& strides, const Dims& shape, int64_t row) {
    int64_t at = 0;
    for (int i = static_cast<int>(shape.size()) - 2; i >= 0; --i) {
      at += row % shape[i] * strides[i];
      row /= shape[i];
    }
    return at;
  }

  std::unique_ptr<CpuMatMul> product_;
  MatMulCall call_;
  const char* from_;
  char* to_;
};

}  // namespace

MatMulShape SimplifyMatMul(const MatMulCall& call) {
  const Dims& shape = call.d.type.shape;
  const size_t r = shape.size(), batches = r - 2;
  MatMulShape out;
  out.m = shape[r - 2], out.n = shape[r - 1], out.k = call.a.type.shape[r - 1];
  const Dims a = Cleaned(call.a, call.a.type.shape), b = Cleaned(call.b, call.b.type.shape);
  const Dims d = Cleaned(call.d, shape), c = call.c ? Cleaned(call.c, shape) : d;
  for (size_t i = 0; i < batches; ++i) {
    if (shape[i] == 1) continue;
    const auto continues = [&](const Dims& to, const Dims& from) {
      return to.back() == from[i] * shape[i];
    };
    if (!out.batch.empty() && continues(out.a, a) && continues(out.b, b) && continues(out.c, c) &&
        continues(out.d, d)) {
      out.batch.back() *= shape[i];
      out.a.back() = a[i], out.b.back() = b[i], out.c.back() = c[i], out.d.back() = d[i];
      continue;
    }
    out.batch.push_back(shape[i]);
    out.a.push_back(a[i]), out.b.push_back(b[i]), out.c.push_back(c[i]), out.d.push_back(d[i]);
  }
  // One b for a batch whose rows follow each other is one tall product.
  if (out.batch.size() == 1 && out.b[0] == 0 && out.m > 1) {
    const auto tall = [&](const Dims& strides, const Dims& full) {
      return strides[0] == full[r - 2] * out.m;
    };
    if (tall(out.a, a) && tall(out.c, c) && tall(out.d, d)) {
      out.m *= out.batch[0];
      out.batch.clear();
      out.a.clear(), out.b.clear(), out.c.clear(), out.d.clear();
    }
  }
  for (size_t i = r - 2; i < r; ++i) {
    out.a.push_back(a[i]), out.b.push_back(b[i]), out.c.push_back(c[i]), out.d.push_back(d[i]);
  }
  return out;
}

std::unique_ptr<CpuMatMul> MakeCpuMatMul(const MatMulCall& call, const CpuMemory& memory) {
  const bool gelu =
      call.epilogue == Epilogue::kGeluTanhAux || call.epilogue == Epilogue::kBiasGeluTanhAux;
  if (gelu) {
    MatMulCall product = call;
    product.d = call.aux;
    product.epilogue = call.epilogue == Epilogue::kGeluTanhAux ? Epilogue::kNone : Epilogue::kBias;
    return std::make_unique<GeluAfter>(MakeCpuMatMul(product, memory), call, memory);
  }
  if (auto library = MakeOneDnnMatMul(call, memory)) return library;
  return MakePlainMatMul(call, memory);
}

}  // namespace stator
