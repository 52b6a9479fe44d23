// Owners of what the CUDA runtime hands out.
#pragma once

#include "codegen/plan.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <utility>

namespace stator {

// A handle with one owner; `Destroy` frees it and its faults are ignored (the device may be lost).
template <typename T, cudaError_t (*Destroy)(T)>
class CudaHandle {
 public:
  CudaHandle() = default;
  explicit CudaHandle(T handle) : handle_(handle) {}
  CudaHandle(CudaHandle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  CudaHandle& operator=(CudaHandle&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~CudaHandle() {
    if (handle_ != nullptr) (void)Destroy(handle_);
  }
  T get() const { return handle_; }

 private:
  T handle_ = nullptr;
};

using CudaStream = CudaHandle<cudaStream_t, cudaStreamDestroy>;
using CudaEvent = CudaHandle<cudaEvent_t, cudaEventDestroy>;
using CudaGraph = CudaHandle<cudaGraph_t, cudaGraphDestroy>;
using CudaGraphExec = CudaHandle<cudaGraphExec_t, cudaGraphExecDestroy>;

CudaStream MakeStream();  // does not synchronize with the default stream
CudaEvent MakeEvent();    // without timing

// Device memory. Throws `Error` (kOutOfMemory) with what it is for, its size and what is free.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(int64_t bytes, const std::string& what);
  DeviceMemory(DeviceMemory&& other) noexcept { Swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    Swap(other);
    return *this;
  }
  ~DeviceMemory();

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void Swap(DeviceMemory& other) {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Page-locked host memory, which copies use without waiting.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(int64_t bytes, const std::string& what);
  PinnedMemory(PinnedMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  PinnedMemory& operator=(PinnedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~PinnedMemory();
  char* data() const { return data_; }

 private:
  char* data_ = nullptr;
};

// The base addresses of a plan's spaces.
struct SpaceMap {
  char* base[4] = {};
  char* operator()(BufferRef ref) const {
    return ref ? base[static_cast<int>(ref.space)] + ref.offset : nullptr;
  }
};

// Bytes of the current device in use, by everyone.
int64_t DeviceBytesUsed();

}  // namespace stator
