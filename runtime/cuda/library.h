// Loaded machine code and launches of its kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace stator {

// A loaded cubin. Loading is complete when the constructor returns.
class CudaLibrary {
 public:
  // Throws `Error` naming `what` when the device does not take the code.
  CudaLibrary(std::span<const char> cubin, const std::string& what);
  CudaLibrary(CudaLibrary&& other) noexcept
      : library_(std::exchange(other.library_, nullptr)), what_(std::move(other.what_)) {}
  ~CudaLibrary();

  // Throws `Error` when the library has no such kernel.
  cudaKernel_t Find(const std::string& name) const;

 private:
  cudaLibrary_t library_ = nullptr;
  std::string what_;
};

struct LaunchShape {
  dim3 grid{1, 1, 1};
  unsigned block = 1;
  size_t shared_bytes = 0;
};

// Checks a shape against the kernel's and the device's limits and raises the kernel's limit of
// dynamic shared memory where needed. Throws `Error` naming `name`.
void PrepareLaunch(cudaKernel_t kernel, const LaunchShape& shape, const std::string& name);

// `params` holds the address of each argument, as cudaLaunchKernel takes them.
void LaunchKernel(cudaKernel_t kernel, const LaunchShape& shape, void** params, cudaStream_t stream,
                  const char* name);

// Launches with arguments by value, in the kernel's types.
template <typename... Args>
void Launch(cudaKernel_t kernel, const LaunchShape& shape, cudaStream_t stream, const char* name,
            Args... args) {
  void* params[] = {static_cast<void*>(&args)...};
  LaunchKernel(kernel, shape, params, stream, name);
}

}  // namespace stator
