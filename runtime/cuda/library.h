// Loaded machine code and launches of its kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stator {

// Of the current device.
int DeviceAttribute(cudaDeviceAttr attribute);

// Whether every kernel of a source begins with `st_begin();`, whose last act is
// griddepcontrol.wait, or waits with `st_await();`, ahead of which it reads states at most.
bool EveryKernelWaits(std::string_view source);

struct CudaKernel {
  cudaKernel_t handle = nullptr;
  bool waits = false;  // touches no memory but states that it reads before griddepcontrol.wait
};

// A loaded cubin. Loading is complete when the constructor returns.
class CudaLibrary {
 public:
  // Throws `Error` naming `what` when the device does not take the code. `waits`: see CudaKernel.
  CudaLibrary(std::span<const char> cubin, const std::string& what, bool waits = false);
  CudaLibrary(CudaLibrary&& other) noexcept
      : library_(std::exchange(other.library_, nullptr)),
        what_(std::move(other.what_)),
        waits_(other.waits_) {}
  ~CudaLibrary();

  // Throws `Error` when the library has no such kernel.
  CudaKernel Find(const std::string& name) const;

 private:
  cudaLibrary_t library_ = nullptr;
  std::string what_;
  bool waits_ = false;
};

struct LaunchShape {
  dim3 grid{1, 1, 1};
  unsigned block = 1;
  size_t shared_bytes = 0;
  int cluster = 1;  // as the kernel was compiled
};

// Checks a shape against the kernel's and the device's limits and raises the kernel's limit of
// dynamic shared memory where needed. Throws `Error` naming `name`.
void PrepareLaunch(CudaKernel kernel, const LaunchShape& shape, const std::string& name);

// `params` holds the address of each argument, as cudaLaunchKernel takes them.
//
// In a graph that is being captured, a kernel that waits is launched as soon as the blocks of the
// kernel before it are all there and let it (programmatic dependent launch), so that its own launch
// costs no time. That changes no order of memory: it waits until that kernel has ended and its
// writes are visible, and that one, launched early itself or not, has ended after all before it.
// Only where a kernel is the one thing it depends on; behind a copy, a fill or a join it is
// launched at their end.
void LaunchKernel(CudaKernel kernel, const LaunchShape& shape, void** params, cudaStream_t stream,
                  const char* name);

// Launches with arguments by value, in the kernel's types.
template <typename... Args>
void Launch(CudaKernel kernel, const LaunchShape& shape, cudaStream_t stream, const char* name,
            Args... args) {
  void* params[] = {static_cast<void*>(&args)...};
  LaunchKernel(kernel, shape, params, stream, name);
}

}  // namespace stator
