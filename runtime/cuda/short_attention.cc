#include "runtime/cuda/short_attention.h"

#include "runtime/cuda/kernels/sources.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace stator {
namespace {

constexpr int64_t kMostRows = 128, kMostHead = 64;
// Heads in all: more of them fill a GPU, and keep a library's kernels busy.
constexpr int64_t kMostHeads = 512;

// As in kernels/short_attention_source.cc.
struct Place {
  uint64_t b, h, t;
};

Place PlaceOf(const TensorRef& x) {  // [B,T,H,D]
  return {static_cast<uint64_t>(x.strides[0]), static_cast<uint64_t>(x.strides[2]),
          static_cast<uint64_t>(x.strides[1])};
}

// Rows can be read and written 16 bytes at a time.
bool IsAligned(const TensorRef& x) {
  if (x.type.rank() != 4 || x.strides.size() != 4 || x.strides[3] != 1) return false;
  const bool strides = std::all_of(x.strides.begin(), x.strides.end() - 1,
                                   [](int64_t stride) { return stride % 8 == 0; });
  return strides && x.buffer.offset % 16 == 0;
}

class ShortAttention : public CudaStep {
 public:
  ShortAttention(const AttentionCall& call, const SpaceMap& spaces, const CudaLibrary& library,
                 std::string name)
      : call_(call),
        spaces_(spaces),
        kernel_(library.Find(call.backward ? "short_attention_grad" : "short_attention")),
        name_(std::move(name)) {
    const int64_t rows = call.q.type.dim(1), head = call.q.type.dim(3);
    const unsigned heads = static_cast<unsigned>(call.q.type.dim(2));
    const unsigned batch = static_cast<unsigned>(call.q.type.dim(0));
    if (call.backward) {
      shape_ = {dim3(heads, batch), static_cast<unsigned>(2 * rows),
                static_cast<size_t>(2 * rows * (4 * (head + 8) + 2 * (rows + 8)))};
    } else {
      const int64_t warps = std::min<int64_t>(4, rows / 16),
                    parts = (rows + 16 * warps - 1) / (16 * warps);
      shape_ = {dim3(static_cast<unsigned>(parts), heads, batch), static_cast<unsigned>(32 * warps),
                0};
    }
    PrepareLaunch(kernel_, shape_, name_);
  }

  void Enqueue(cudaStream_t stream) override {
    const AttentionCall& c = call_;
    const float scale = static_cast<float>(c.scale);
    const auto at = [&](const TensorRef& t) { return spaces_(t.buffer); };
    if (!c.backward) {
      Launch(kernel_, shape_, stream, name_.c_str(), at(c.q), at(c.k), at(c.v), at(c.out),
             at(c.lse), PlaceOf(c.q), PlaceOf(c.k), PlaceOf(c.v), PlaceOf(c.out), scale);
      return;
    }
    Launch(kernel_, shape_, stream, name_.c_str(), at(c.q), at(c.k), at(c.v), at(c.out), at(c.lse),
           at(c.dout), at(c.dq), at(c.dk), at(c.dv), PlaceOf(c.q), PlaceOf(c.k), PlaceOf(c.v),
           PlaceOf(c.out), PlaceOf(c.dout), PlaceOf(c.dq), PlaceOf(c.dk), PlaceOf(c.dv), scale);
  }

 private:
  AttentionCall call_;
  SpaceMap spaces_;
  CudaKernel kernel_;
  LaunchShape shape_;
  std::string name_;
};

}  // namespace

bool IsShortAttention(const AttentionCall& c, int sm) {
  if (sm != 80 && sm < 90) return false;  // too little shared memory, or no such matrix units
  if (!c.q || !c.k || !c.v || !c.out) return false;
  if (c.bias || c.q_segments || c.k_segments || c.key_lengths || c.dlse || c.dbias) return false;
  if (c.dropout > 0 || c.window > 0 || c.q_offset != 0 || !(c.scale > 0)) return false;
  if (c.q.type.rank() != 4 || c.k.type != c.q.type || c.v.type != c.q.type) return false;
  const int64_t rows = c.q.type.dim(1), heads = c.q.type.dim(2), head = c.q.type.dim(3);
  const DType dtype = c.q.type.dtype;
  if (dtype != DType::kBF16 && dtype != DType::kF16) return false;
  if (rows < 16 || rows > kMostRows || rows % 16 != 0) return false;
  if (head < 16 || head > kMostHead || head % 16 != 0) return false;
  if (c.q.type.dim(0) * heads > kMostHeads) return false;
  const Dims lse = {c.q.type.dim(0), heads, rows};
  if (c.lse && (c.lse.type != Type{DType::kF32, lse} || c.lse.strides != DenseStrides(lse)))
    return false;
  std::vector<const TensorRef*> used = {&c.q, &c.k, &c.v, &c.out};
  if (c.backward) {
    if (!c.lse) return false;
    used.insert(used.end(), {&c.dout, &c.dq, &c.dk, &c.dv});
  }
  return std::all_of(used.begin(), used.end(), [&](const TensorRef* t) {
    return *t && t->type == c.q.type && IsAligned(*t);
  });
}

std::string ShortAttentionSourceFor(const AttentionCall& call) {
  return ShortAttentionSource(call.q.type.dtype, call.q.type.dim(1), call.q.type.dim(3),
                              call.causal);
}

CudaStepPtr PrepareShortAttention(const AttentionCall& call, const SpaceMap& spaces,
                                  const CudaLibrary& library, const std::string& name) {
  return std::make_unique<ShortAttention>(call, spaces, library, name);
}

}  // namespace stator
