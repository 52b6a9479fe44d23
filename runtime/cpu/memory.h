// The CPU executor's memory: one allocation a space, at fixed addresses for its whole life.
#pragma once

#include "codegen/plan.h"

#include <cstdint>
#include <memory>

namespace stator {

// Zeroed, aligned for whole pages. Throws `Error` (kOutOfMemory) naming `what`.
class CpuBlock {
 public:
  CpuBlock() = default;
  CpuBlock(int64_t bytes, const char* what);

  char* data() const { return data_.get(); }
  int64_t size() const { return size_; }

 private:
  struct Free {
    void operator()(char* p) const;
  };
  std::unique_ptr<char, Free> data_;
  int64_t size_ = 0;
};

class CpuMemory {
 public:
  explicit CpuMemory(const Plan& plan);

  // Null for an absent buffer.
  char* At(BufferRef buffer) const;
  template <typename T>
  T* At(const TensorRef& tensor) const {
    return reinterpret_cast<T*>(At(tensor.buffer));
  }

  const CpuBlock& state() const { return state_; }
  const CpuBlock& arena() const { return arena_; }
  const CpuBlock& io() const { return io_; }

 private:
  CpuBlock state_, arena_, io_;
};

// Of this machine.
int64_t PhysicalMemoryBytes();

}  // namespace stator
