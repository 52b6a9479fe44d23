// Builds without cuDNN: no fused attention; plans compose it from matmuls and softmax.
#if !STATOR_WITH_CUDNN
#include "ir/base/error.h"
#include "runtime/cuda/attention_cudnn.h"

namespace stator {

struct CudnnAttention::Impl {};

LibraryFact CudnnFact() { return {"cuDNN", "", "", "this build has no cuDNN attention"}; }

CudnnAttention::CudnnAttention(const std::string&, const std::string&) {}
CudnnAttention::~CudnnAttention() = default;

bool CudnnAttention::Supports(const AttentionQuery&, std::string* why) {
  if (why != nullptr) *why = CudnnFact().note;
  return false;
}

int64_t CudnnAttention::Workspace(const AttentionQuery&) { return 0; }

CudaStepPtr CudnnAttention::Prepare(const AttentionCall&, const SpaceMap&,
                                    const std::string& name) {
  Fail(ErrorCode::kUnsupported, name, ": ", CudnnFact().note);
}

}  // namespace stator
#endif
