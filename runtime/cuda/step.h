// One step of a plan, made ready at load: everything is resolved, checked and loaded, so that
// Enqueue only hands work to a stream, also while the stream is being captured.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

namespace stator {

class CudaStep {
 public:
  virtual ~CudaStep() = default;
  virtual void Enqueue(cudaStream_t stream) = 0;
};

using CudaStepPtr = std::unique_ptr<CudaStep>;

}  // namespace stator
