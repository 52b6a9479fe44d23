#include "runtime/cuda/resources.h"

#include "ir/base/error.h"
#include "runtime/cuda/check.h"

namespace stator {

void ThrowCuda(cudaError_t status, std::string_view doing) {
  (void)cudaGetLastError();
  const ErrorCode code =
      status == cudaErrorMemoryAllocation ? ErrorCode::kOutOfMemory : ErrorCode::kEnvironment;
  Fail(code, doing, ": ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")");
}

CudaStream MakeStream() {
  cudaStream_t stream = nullptr;
  CheckCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create a stream");
  return CudaStream(stream);
}

CudaEvent MakeEvent() {
  cudaEvent_t event = nullptr;
  CheckCuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "create an event");
  return CudaEvent(event);
}

DeviceMemory::DeviceMemory(int64_t bytes, const std::string& what) : bytes_(bytes) {
  if (bytes <= 0) return;
  void* pointer = nullptr;
  const cudaError_t status = cudaMalloc(&pointer, static_cast<size_t>(bytes));
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    size_t free = 0, total = 0;
    (void)cudaMemGetInfo(&free, &total);
    Fail(ErrorCode::kOutOfMemory, "the device has no room for ", what, ": ", bytes,
         " bytes wanted, ", free, " of ", total, " free");
  }
  CheckCuda(status, "allocate " + what);
  data_ = static_cast<char*>(pointer);
}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) (void)cudaFree(data_);
}

PinnedMemory::PinnedMemory(int64_t bytes, const std::string& what) {
  if (bytes <= 0) return;
  void* pointer = nullptr;
  CheckCuda(cudaHostAlloc(&pointer, static_cast<size_t>(bytes), cudaHostAllocDefault),
            "allocate page-locked memory for " + what);
  data_ = static_cast<char*>(pointer);
}

PinnedMemory::~PinnedMemory() {
  if (data_ != nullptr) (void)cudaFreeHost(data_);
}

int64_t DeviceBytesUsed() {
  size_t free = 0, total = 0;
  CheckCuda(cudaMemGetInfo(&free, &total), "ask for free device memory");
  return static_cast<int64_t>(total - free);
}

}  // namespace stator
