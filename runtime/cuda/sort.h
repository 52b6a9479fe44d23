// Stable radix sorts on the device.
#pragma once

#include "codegen/plan.h"
#include "runtime/cuda/library.h"
#include "runtime/cuda/resources.h"
#include "runtime/cuda/step.h"

#include <cstdint>
#include <memory>
#include <string>

namespace stator {

// The passes over keys that are in place; shared by sorts and segment sums.
class RadixSorter {
 public:
  explicit RadixSorter(const CudaLibrary& library);

  // Keys, positions, their doubles, digit counts.
  struct Buffers {
    uint32_t *keys = nullptr, *index = nullptr, *other_keys = nullptr, *other_index = nullptr;
    uint32_t* counts = nullptr;
  };
  // Lays the buffers out in `workspace`; Bytes is what they take.
  static int64_t Bytes(int64_t rows, int64_t n);
  static Buffers Place(char* workspace, int64_t rows, int64_t n);

  // Sorts every row by the bits [first_bit, last_bit); the sorted keys and their positions are in
  // `keys` and `index` of the result.
  Buffers Enqueue(Buffers buffers, int64_t rows, int64_t n, int first_bit, int last_bit,
                  cudaStream_t stream) const;

  // A launch of one thread an element.
  static LaunchShape Flat(int64_t elements);

 private:
  CudaKernel histogram_, scan_, scatter_;
};

int64_t SortWorkspace(const SortCall& call);  // bytes

// `workspace` has SortWorkspace(call) bytes; `library` is kSortSource. Throws `Error` with `name`
// for keys that are not 32 bits or less, or tensors that are not dense.
CudaStepPtr PrepareSort(const SortCall& call, const SpaceMap& spaces, char* workspace,
                        const CudaLibrary& library, const std::string& name);

}  // namespace stator
