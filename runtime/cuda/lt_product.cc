#include "runtime/cuda/lt_product.h"

#include "ir/base/error.h"
#include "runtime/cuda/check.h"

namespace stator {
namespace {

// K = 0, or nothing at all: d is c, or zero.
class NoTerms : public CudaStep {
 public:
  NoTerms(const MatMulCall& call, const SpaceMap& spaces, const std::string& name)
      : to_(spaces(call.d.buffer)),
        from_(spaces(call.c.buffer)),
        bytes_(static_cast<size_t>(call.d.type.Bytes())) {
    const Dims dense = DenseStrides(call.d.type.shape);
    if (call.epilogue != Epilogue::kNone ||
        (bytes_ > 0 && (call.d.strides != dense || (call.c && call.c.strides != dense)))) {
      Fail(ErrorCode::kUnsupported, name, ": matmul over no terms with strides or an epilogue");
    }
  }
  void Enqueue(cudaStream_t stream) override {
    if (bytes_ == 0 || to_ == from_) return;
    CheckCuda(from_ == nullptr
                  ? cudaMemsetAsync(to_, 0, bytes_, stream)
                  : cudaMemcpyAsync(to_, from_, bytes_, cudaMemcpyDeviceToDevice, stream),
              "fill an empty product");
  }

 private:
  char *to_, *from_;
  size_t bytes_;
};

}  // namespace

void CheckLt(cublasStatus_t status, const std::string& doing) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  Fail(ErrorCode::kEnvironment, "cublaslt: ", doing, ": ", cublasLtGetStatusName(status));
}

cudaDataType LtDataType(DType dtype, const std::string& name) {
  switch (dtype) {
    case DType::kF64:
      return CUDA_R_64F;
    case DType::kF32:
      return CUDA_R_32F;
    case DType::kBF16:
      return CUDA_R_16BF;
    case DType::kF16:
      return CUDA_R_16F;
    default:
      Fail(ErrorCode::kUnsupported, name, ": cuBLASLt multiplies f64, f32, bf16 and f16, not ",
           Name(dtype));
  }
}

LtLayout MakeLtLayout(const LtMatrix& m, int64_t batch, const std::string& name) {
  LtLayout layout;
  CheckLt(cublasLtMatrixLayoutCreate(&layout.handle, LtDataType(m.dtype, name),
                                     static_cast<uint64_t>(m.rows), static_cast<uint64_t>(m.cols),
                                     m.ld),
          "describe a matrix");
  const int32_t count = static_cast<int32_t>(batch);
  CheckLt(cublasLtMatrixLayoutSetAttribute(layout.handle, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                           &count, sizeof count),
          "describe a batch");
  CheckLt(
      cublasLtMatrixLayoutSetAttribute(layout.handle, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                       &m.batch_stride, sizeof m.batch_stride),
      "describe a batch");
  return layout;
}

void LtProduct::Enqueue(cudaStream_t stream) { Loop(0, pointer, stream); }

void LtProduct::Loop(size_t depth, char* const (&at)[kLtOperands], cudaStream_t stream) {
  if (depth == problem.loops.size()) return Run(at, stream);
  const LtLoop& loop = problem.loops[depth];
  for (int64_t i = 0; i < loop.count; ++i) {
    char* here[kLtOperands];
    for (int o = 0; o < kLtOperands; ++o) {
      here[o] = at[o] + i * loop.stride[o] * ByteWidth(problem.matrix[o].dtype);
    }
    Loop(depth + 1, here, stream);
  }
}

void LtProduct::Run(char* const (&at)[kLtOperands], cudaStream_t stream) {
  if (!problem.loops.empty() && problem.epilogue >= Epilogue::kGeluTanhAux) {
    SetDesc(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, at[kLtAux]);
  }
  const double one = 1, zero = 0;
  const float one_f = 1, zero_f = 0;
  const bool wide = problem.matrix[kLtA].dtype == DType::kF64;
  const void* alpha = wide ? static_cast<const void*>(&one) : &one_f;
  const void* no_c = wide ? static_cast<const void*>(&zero) : &zero_f;
  CheckLt(cublasLtMatmul(lt, desc.handle, alpha, at[kLtA], layout[kLtA].handle, at[kLtB],
                         layout[kLtB].handle, problem.has_c ? alpha : no_c, at[kLtC],
                         layout[kLtC].handle, at[kLtD], layout[kLtD].handle, &algorithm, workspace,
                         workspace_bytes, stream),
          name + ": run " + problem.Key());
}

CudaStepPtr MakeProductOfNoTerms(const MatMulCall& call, const SpaceMap& spaces,
                                 const std::string& name) {
  return std::make_unique<NoTerms>(call, spaces, name);
}

}  // namespace stator
