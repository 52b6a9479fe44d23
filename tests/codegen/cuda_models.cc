#include "tests/codegen/cuda_models.h"

#include "codegen/prelude.h"
#include "frontend/driver/train.h"
#include "ir/base/error.h"
#include "runtime/executor.h"

namespace stator {
namespace {

Plan PlanForGpu(TrainConfig config, DType dtype, int64_t layers) {
  config.dtype = std::string(Name(dtype));
  config.n_layer = layers, config.n_head = 2, config.n_embd = 128, config.block_size = 64;
  config.batch_size = 2;
  return CompileTraining(config, *MakeRecordedTarget("h200"), /*bytes=*/true).compiled.plan;
}

}  // namespace

Plan GptPlanForGpu(DType dtype, int64_t layers, double dropout) {
  TrainConfig config;
  config.dropout = dropout;
  return PlanForGpu(config, dtype, layers);
}

Plan LargeGptPlanForGpu() {
  TrainConfig config;
  config.dtype = "bf16";
  config.n_layer = 1, config.n_head = 12, config.n_embd = 768, config.block_size = 1024,
  config.batch_size = 64;
  return CompileTraining(config, *MakeRecordedTarget("h200"), /*bytes=*/true).compiled.plan;
}

Plan LlamaPlanForGpu(DType dtype, int64_t layers) {
  TrainConfig config;
  config.model = "llama";
  config.n_kv_head = 1;
  return PlanForGpu(config, dtype, layers);
}

std::string KernelText(const Plan& plan) {
  std::string text;
  for (const KernelModule& module : plan.modules) {
    const std::string& prelude = Prelude(module.language);
    STATOR_CHECK(module.source.starts_with(prelude), "a module without its prelude");
    text += module.source.substr(prelude.size());
  }
  return text;
}

}  // namespace stator
