// CUDA status codes as `Error`s.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

namespace stator {

// Throws `Error`: kOutOfMemory for a failed allocation, kEnvironment otherwise. The message says
// what was being done, CUDA's name of the fault and its sentence.
[[noreturn]] void ThrowCuda(cudaError_t status, std::string_view doing);

inline void CheckCuda(cudaError_t status, std::string_view doing) {
  if (status != cudaSuccess) ThrowCuda(status, doing);
}

}  // namespace stator
