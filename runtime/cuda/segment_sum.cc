#include "runtime/cuda/segment_sum.h"

#include "ir/base/error.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/kernels/sources.h"
#include "runtime/cuda/sort.h"

#include <algorithm>
#include <bit>

namespace stator {
namespace {

constexpr int64_t kShort = 8;  // as in kernels/segment_sum_source.cc
constexpr unsigned kChunkBlocks = 2048;
constexpr int64_t kSmall = 2048;        // updates, as in kernels/segment_sum_source.cc
constexpr int64_t kSmallBlocks = 2048;  // of which each looks at all indices

int64_t Aligned(int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

struct Shape {
  int64_t n, rows, width, stride;
  int vector;         // elements a thread reads at once
  int64_t acc_bytes;  // of one
};

Shape ShapeOf(const SegmentSumCall& call) {
  const Type& type = call.updates.type;
  Shape s{};
  s.n = type.dim(0);
  s.rows = call.out.type.dim(0);
  s.width = s.n == 0 ? 0 : type.NumElements() / s.n;
  s.stride = call.updates.strides.empty() || s.n == 1 ? s.width : call.updates.strides[0];
  s.acc_bytes = type.dtype == DType::kF64 ? 8 : 4;
  const int64_t bytes = ByteWidth(type.dtype), wide = 16 / bytes;
  const bool aligned = (call.updates.buffer.offset | call.out.buffer.offset) % 16 == 0 &&
                       s.width % wide == 0 && s.stride % wide == 0;
  s.vector = aligned ? static_cast<int>(wide) : 1;
  return s;
}

// At most this many chunks: of rows with 9 to 512 occurrences, and of longer ones.
int64_t MaxSlots(int64_t n) { return n / 64 + n / 512 + 2; }
int64_t MaxTasks(int64_t n) { return n / (kShort + 1) + 1 + MaxSlots(n); }
int64_t MaxCombines(int64_t n) { return n / 512 + 1; }

class SegmentSumStep : public CudaStep {
 public:
  SegmentSumStep(const SegmentSumCall& call, const SpaceMap& spaces, char* workspace,
                 const CudaLibrary& sort, const CudaLibrary& library)
      : shape_(ShapeOf(call)),
        sorter_(sort),
        ids_kernel_(library.Find("segment_ids")),
        plan_(library.Find("segment_plan")),
        short_(library.Find("segment_short")),
        chunks_(library.Find("segment_chunks")),
        combine_(library.Find("segment_combine")),
        small_(library.Find("segment_small")),
        updates_(spaces(call.updates.buffer)),
        ids_(spaces(call.indices.buffer)),
        out_(spaces(call.out.buffer)),
        out_bytes_(static_cast<size_t>(call.out.type.Bytes())),
        accumulate_(call.accumulate),
        buffers_(RadixSorter::Place(workspace, 1, shape_.n)) {
    char* at = workspace + RadixSorter::Bytes(1, shape_.n);
    const auto take = [&](int64_t bytes) { return std::exchange(at, at + Aligned(bytes)); };
    counters_ = take(3 * 4);
    starts_ = take((shape_.rows + 1) * 4);
    tasks_ = take(MaxTasks(shape_.n) * 16);
    combines_ = take(MaxCombines(shape_.n) * 16);
    partials_ = take(MaxSlots(shape_.n) * shape_.width * shape_.acc_bytes);
  }

  void Enqueue(cudaStream_t stream) override {
    if (out_bytes_ == 0) return;
    if (shape_.n == 0 || shape_.width == 0) {
      if (!accumulate_)
        CheckCuda(cudaMemsetAsync(out_, 0, out_bytes_, stream), "zero a segment sum");
      return;
    }
    const uint32_t n = static_cast<uint32_t>(shape_.n), rows = static_cast<uint32_t>(shape_.rows);
    const uint32_t columns = static_cast<uint32_t>(shape_.width / shape_.vector);
    const uint64_t stride = static_cast<uint64_t>(shape_.stride);
    const unsigned slices = (columns + 31) / 32;
    if (shape_.n <= kSmall && shape_.rows * slices <= kSmallBlocks) {
      Launch(small_, {dim3(rows, slices), 256, 0}, stream, "segment_small", updates_, stride, ids_,
             out_, n, columns);
      return;
    }
    Launch(ids_kernel_, RadixSorter::Flat(n), stream, "segment_ids", ids_, buffers_.keys,
           buffers_.index, n, rows);
    const RadixSorter::Buffers sorted =
        sorter_.Enqueue(buffers_, 1, n, 0, static_cast<int>(std::bit_width(rows)), stream);
    CheckCuda(cudaMemsetAsync(counters_, 0, 12, stream), "clear counters");
    Launch(plan_, RadixSorter::Flat(shape_.rows + 1), stream, "segment_plan", sorted.keys, n, rows,
           starts_, counters_, tasks_, combines_);
    Launch(short_, RadixSorter::Flat(shape_.rows * columns), stream, "segment_short", updates_,
           stride, sorted.index, starts_, out_, rows, columns);
    if (shape_.n <= kShort) return;
    const auto blocks = [](int64_t most) {
      return static_cast<unsigned>(std::min<int64_t>(most, kChunkBlocks));
    };
    Launch(chunks_, {dim3(blocks(MaxTasks(shape_.n)), slices), 256, 0}, stream, "segment_chunks",
           updates_, stride, sorted.index, counters_, tasks_, out_, partials_, columns);
    if (shape_.n <= 512) return;
    Launch(combine_, {dim3(blocks(MaxCombines(shape_.n)), slices), 256, 0}, stream,
           "segment_combine", counters_, combines_, partials_, out_, columns);
  }

 private:
  Shape shape_;
  RadixSorter sorter_;
  CudaKernel ids_kernel_, plan_, short_, chunks_, combine_, small_;
  char *updates_, *ids_, *out_;
  size_t out_bytes_;
  bool accumulate_;
  RadixSorter::Buffers buffers_;
  char *counters_, *starts_, *tasks_, *combines_, *partials_;
};

}  // namespace

int64_t SegmentSumWorkspace(const SegmentSumCall& call) {
  const Shape s = ShapeOf(call);
  return RadixSorter::Bytes(1, s.n) + Aligned(3 * 4) + Aligned((s.rows + 1) * 4) +
         Aligned(MaxTasks(s.n) * 16) + Aligned(MaxCombines(s.n) * 16) +
         Aligned(MaxSlots(s.n) * s.width * s.acc_bytes);
}

std::string SegmentSumSourceFor(const SegmentSumCall& call, const std::string& name) {
  const Type& updates = call.updates.type;
  const auto refuse = [&](const TensorRef& t) {
    Fail(ErrorCode::kUnsupported, name, ": segment sum of ", t.type.ToString(), " with strides ",
         t.strides);
  };
  if (updates.rank() < 1 || call.out.type.rank() < 1 || updates.dim(0) >= int64_t{1} << 31 ||
      call.out.type.dim(0) >= int64_t{1} << 31) {
    refuse(call.updates);
  }
  Dims inner = DenseStrides(updates.shape);  // rows may lie apart
  if (!call.updates.strides.empty()) inner[0] = call.updates.strides[0];
  if (call.updates.strides != inner) refuse(call.updates);
  if (call.out.strides != DenseStrides(call.out.type.shape)) refuse(call.out);
  if (call.indices.type.NumElements() != updates.dim(0) ||
      call.indices.strides != DenseStrides(call.indices.type.shape)) {
    refuse(call.indices);
  }
  return SegmentSumSource(updates.dtype, call.out.type.dtype, call.indices.type.dtype,
                          ShapeOf(call).vector, call.accumulate);
}

CudaStepPtr PrepareSegmentSum(const SegmentSumCall& call, const SpaceMap& spaces, char* workspace,
                              const CudaLibrary& sort, const CudaLibrary& library) {
  return std::make_unique<SegmentSumStep>(call, spaces, workspace, sort, library);
}

}  // namespace stator
