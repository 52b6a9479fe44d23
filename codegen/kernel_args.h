// The parameters of a kernel: pointers to the storage of values.
#pragma once

#include "ir/graph.h"

#include <cstdint>
#include <string>
#include <vector>

namespace stator {

// A pointer that a kernel is given: to element `first` of a value's storage.
struct KernelArg {
  Value value;
  bool write;  // whether the kernel writes it
  int64_t first = 0;
};

// Pointers of a kernel, in argument order.
class KernelArgs {
 public:
  // The parameter that points to element `first` of `base`'s storage.
  std::string Read(Value base, int64_t first = 0);
  std::string Write(Value result);
  // "const float* a0, st_bf16* a1".
  std::string Declaration() const;
  // The same as casts from `void* const* args`.
  std::string Unpacking() const;
  const std::vector<KernelArg>& all() const { return all_; }

 private:
  std::string Add(const KernelArg& arg);
  std::vector<KernelArg> all_;
};

}  // namespace stator
