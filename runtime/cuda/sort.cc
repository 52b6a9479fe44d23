#include "runtime/cuda/sort.h"

#include "ir/base/error.h"

#include <algorithm>

namespace stator {
namespace {

constexpr int64_t kTile = 1024;  // as in kernels/sort_source.cc
constexpr int kDigitBits = 8;

int64_t Tiles(int64_t n) { return std::max<int64_t>(1, (n + kTile - 1) / kTile); }
int64_t Aligned(int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

// Where a key's significant bits begin and end.
struct KeyBits {
  const char* kernel;
  int first, last;
};

KeyBits BitsOf(DType dtype, const std::string& name) {
  switch (dtype) {
    case DType::kF32:
      return {"sort_keys_f32", 0, 32};
    case DType::kBF16:
      return {"sort_keys_bf16", 16, 32};
    case DType::kF16:
      return {"sort_keys_f16", 8, 32};
    case DType::kI32:
      return {"sort_keys_i32", 0, 32};
    case DType::kU32:
      return {"sort_keys_u32", 0, 32};
    case DType::kU16:
      return {"sort_keys_u16", 0, 16};
    case DType::kU8:
    case DType::kBool:
      return {"sort_keys_u8", 0, 8};
    default:
      Fail(ErrorCode::kUnsupported, name, ": sorting ", Name(dtype), " is not there on CUDA");
  }
}

class SortStep : public CudaStep {
 public:
  SortStep(const SortCall& call, const SpaceMap& spaces, char* workspace,
           const CudaLibrary& library, const std::string& name)
      : sorter_(library),
        bits_(BitsOf(call.keys.type.dtype, name)),
        keys_(library.Find(bits_.kernel)),
        emit_(library.Find(StrCat("sort_emit_", ByteWidth(call.keys.type.dtype)))),
        n_(call.keys.type.dim(-1)),
        rows_(n_ == 0 ? 0 : call.keys.type.NumElements() / n_),
        descending_(call.descending),
        in_(spaces(call.keys.buffer)),
        values_(spaces(call.values.buffer)),
        indices_(spaces(call.indices.buffer)),
        buffers_(RadixSorter::Place(workspace, rows_, n_)) {
    for (const TensorRef* t : {&call.keys, &call.values, &call.indices}) {
      if (*t && t->strides != DenseStrides(t->type.shape)) {
        Fail(ErrorCode::kUnsupported, name, ": sort takes dense tensors, got ", t->type.ToString(),
             " with strides ", t->strides);
      }
    }
    if (call.indices && ByteWidth(call.indices.type.dtype) != 4) {
      Fail(ErrorCode::kUnsupported, name, ": sort gives i32 indices, not ",
           Name(call.indices.type.dtype));
    }
  }

  void Enqueue(cudaStream_t stream) override {
    const uint64_t total = static_cast<uint64_t>(rows_ * n_);
    if (total == 0) return;
    const uint32_t n = static_cast<uint32_t>(n_);
    const LaunchShape flat = RadixSorter::Flat(rows_ * n_);
    // The descending order of keys narrower than 32 bits leaves their high bits alone.
    Launch(keys_, flat, stream, "sort_keys", in_, buffers_.keys, buffers_.index, total, n,
           descending_ ? 1 : 0);
    const RadixSorter::Buffers sorted =
        sorter_.Enqueue(buffers_, rows_, n_, bits_.first, bits_.last, stream);
    Launch(emit_, flat, stream, "sort_emit", in_, sorted.index, values_, indices_, total, n);
  }

 private:
  RadixSorter sorter_;
  KeyBits bits_;
  CudaKernel keys_, emit_;
  int64_t n_, rows_;
  bool descending_;
  char *in_, *values_, *indices_;
  RadixSorter::Buffers buffers_;
};

}  // namespace

RadixSorter::RadixSorter(const CudaLibrary& library)
    : histogram_(library.Find("sort_histogram")),
      scan_(library.Find("sort_scan")),
      scatter_(library.Find("sort_scatter")) {}

int64_t RadixSorter::Bytes(int64_t rows, int64_t n) {
  return 4 * Aligned(rows * n * 4) + Aligned(rows * 256 * Tiles(n) * 4);
}

RadixSorter::Buffers RadixSorter::Place(char* workspace, int64_t rows, int64_t n) {
  const int64_t bytes = Aligned(rows * n * 4);
  const auto at = [&](int k) { return reinterpret_cast<uint32_t*>(workspace + k * bytes); };
  return {at(0), at(1), at(2), at(3), at(4)};
}

RadixSorter::Buffers RadixSorter::Enqueue(Buffers b, int64_t rows, int64_t n, int first_bit,
                                          int last_bit, cudaStream_t stream) const {
  const uint32_t tiles = static_cast<uint32_t>(Tiles(n)), length = static_cast<uint32_t>(n);
  const LaunchShape grid{dim3(static_cast<unsigned>(rows * Tiles(n))), 256, 0};
  for (int bit = first_bit; bit < last_bit; bit += kDigitBits) {
    const uint32_t shift = static_cast<uint32_t>(bit);
    Launch(histogram_, grid, stream, "sort_histogram", b.keys, b.counts, length, tiles, shift);
    Launch(scan_, {dim3(static_cast<unsigned>(rows)), 1024, 0}, stream, "sort_scan", b.counts,
           tiles);
    Launch(scatter_, grid, stream, "sort_scatter", b.keys, b.index, b.other_keys, b.other_index,
           b.counts, length, tiles, shift);
    std::swap(b.keys, b.other_keys);
    std::swap(b.index, b.other_index);
  }
  return b;
}

LaunchShape RadixSorter::Flat(int64_t elements) {
  return {dim3(static_cast<unsigned>((elements + 255) / 256)), 256, 0};
}

int64_t SortWorkspace(const SortCall& call) {
  const int64_t n = call.keys.type.dim(-1);
  return n == 0 ? 0 : RadixSorter::Bytes(call.keys.type.NumElements() / n, n);
}

CudaStepPtr PrepareSort(const SortCall& call, const SpaceMap& spaces, char* workspace,
                        const CudaLibrary& library, const std::string& name) {
  if (call.keys.type.rank() < 1 || call.keys.type.dim(-1) >= int64_t{1} << 31) {
    Fail(ErrorCode::kUnsupported, name, ": sort over ", call.keys.type.ToString());
  }
  return std::make_unique<SortStep>(call, spaces, workspace, library, name);
}

}  // namespace stator
