// One product as cuBLASLt runs it: descriptors, addresses and the algorithm.
#pragma once

#include "codegen/plan.h"
#include "runtime/cuda/matmul_layout.h"
#include "runtime/cuda/resources.h"
#include "runtime/cuda/step.h"

#include <cublasLt.h>

#include <string>
#include <utility>

namespace stator {

void CheckLt(cublasStatus_t status, const std::string& doing);

// Throws `Error` with `name` for a dtype that cuBLASLt does not multiply.
cudaDataType LtDataType(DType dtype, const std::string& name);

template <typename T, cublasStatus_t (*Destroy)(T)>
struct LtHandle {
  T handle = nullptr;
  LtHandle() = default;
  LtHandle(LtHandle&& o) noexcept : handle(std::exchange(o.handle, nullptr)) {}
  LtHandle& operator=(LtHandle&& o) noexcept {
    std::swap(handle, o.handle);
    return *this;
  }
  ~LtHandle() {
    if (handle != nullptr) (void)Destroy(handle);
  }
};
using LtDesc = LtHandle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using LtLayout = LtHandle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using LtPreference = LtHandle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

template <typename T>
void SetDesc(const LtDesc& desc, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  CheckLt(cublasLtMatmulDescSetAttribute(desc.handle, attribute, &value, sizeof value),
          "describe a product");
}

struct LtProduct : CudaStep {
  void Enqueue(cudaStream_t stream) override;

  cublasLtHandle_t lt = nullptr;
  LtProblem problem;
  LtDesc desc;
  LtLayout layout[kLtAux];
  char* pointer[kLtOperands] = {};
  char* workspace = nullptr;
  size_t workspace_bytes = 0;
  cublasLtMatmulAlgo_t algorithm{};
  std::string name;

 private:
  void Loop(size_t depth, char* const (&at)[kLtOperands], cudaStream_t stream);
  void Run(char* const (&at)[kLtOperands], cudaStream_t stream);
};

LtLayout MakeLtLayout(const LtMatrix& m, int64_t batch, const std::string& name);

// A product of no elements, or over no terms (K = 0): d is c, or zero.
CudaStepPtr MakeProductOfNoTerms(const MatMulCall& call, const SpaceMap& spaces,
                                 const std::string& name);

}  // namespace stator
