#include "runtime/cuda/attention_clear.h"

#include <utility>
#include <vector>

namespace stator {
namespace {

class ClearedAttention : public CudaStep {
 public:
  ClearedAttention(CudaStepPtr attention, const AttentionCall& call, const SpaceMap& spaces,
                   const CudaLibrary& library)
      : attention_(std::move(attention)),
        spaces_(spaces),
        lengths_(spaces(call.key_lengths.buffer)),
        clear_(library.Find("attention_clear")),
        clear_lse_(library.Find("attention_clear_lse")) {
    if (call.backward) {
      results_ = {call.dq, call.dk, call.dv};
    } else {
      results_ = {call.out};
      lse_ = call.lse;
    }
  }

  void Enqueue(cudaStream_t stream) override {
    attention_->Enqueue(stream);
    for (const TensorRef& t : results_) {  // [B,T,H,D]
      const auto size = [&](int axis) {
        return static_cast<unsigned>(t.type.shape[static_cast<size_t>(axis)]);
      };
      const auto stride = [&](int axis) {
        return static_cast<uint64_t>(t.strides[static_cast<size_t>(axis)]);
      };
      Launch(clear_, {dim3(size(1), size(0)), 256, 0}, stream, "attention_clear", spaces_(t.buffer),
             lengths_, stride(0), stride(1), stride(2), size(2), size(3));
    }
    if (!lse_) return;
    const unsigned count = static_cast<unsigned>(lse_.type.dim(1) * lse_.type.dim(2));
    const unsigned batch = static_cast<unsigned>(lse_.type.dim(0));
    Launch(clear_lse_, {dim3((count + 255) / 256, batch), 256, 0}, stream, "attention_clear_lse",
           spaces_(lse_.buffer), lengths_, count);
  }

 private:
  CudaStepPtr attention_;
  SpaceMap spaces_;
  char* lengths_;
  CudaKernel clear_, clear_lse_;
  std::vector<TensorRef> results_;
  TensorRef lse_;
};

}  // namespace

CudaStepPtr ClearAfter(CudaStepPtr attention, const AttentionCall& call, const SpaceMap& spaces,
                       const CudaLibrary& library) {
  return std::make_unique<ClearedAttention>(std::move(attention), call, spaces, library);
}

}  // namespace stator
