// Plans of small language models for a GPU that need not be there.
#pragma once

#include "codegen/plan.h"
#include "ir/dtype.h"

namespace stator {

// Training programs of a GPT-2 or Llama for an H200: width 128, 2 heads, 64 tokens, 2 sequences.
Plan GptPlanForGpu(DType dtype, int64_t layers, double dropout = 0.1);
// One layer as wide and with as many tokens as GPT-2 124M's, with a small vocabulary.
Plan LargeGptPlanForGpu();
Plan LlamaPlanForGpu(DType dtype, int64_t layers);

// The kernels of a plan without the prelude that all share.
std::string KernelText(const Plan& plan);

}  // namespace stator
