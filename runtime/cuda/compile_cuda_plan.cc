// CompilePlan for CUDA: needs NVRTC alone, so that a plan can be finished where no GPU is.
#include "ir/base/error.h"
#include "runtime/compile_plan.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/kernel_cache.h"

#include <charconv>

namespace stator {
namespace {

int SmOf(const Plan& plan) {
  int sm = 0;
  const std::string& text = plan.target;
  const char* end = text.data() + text.size();
  if (text.rfind("sm_", 0) == 0 && std::from_chars(text.data() + 3, end, sm).ptr == end && sm > 0) {
    return sm;
  }
  Fail(ErrorCode::kInvalidArgument, "plan '", plan.name, "' has no CUDA target: '", text, "'");
}

}  // namespace

void CompileCudaPlan(Plan& plan, const ExecutorOptions& options) {
  const int sm = SmOf(plan);
  KernelCache cache(KernelCacheDir(options.cache_dir));
  std::vector<size_t> missing;
  std::vector<CudaSource> sources;
  for (size_t i = 0; i < plan.modules.size(); ++i) {
    if (!plan.modules[i].binary.empty()) continue;
    missing.push_back(i);
    sources.push_back({StrCat(plan.name, "_", i), plan.modules[i].source});
  }
  std::vector<std::vector<char>> cubins = CompileCudaCached(sources, sm, cache);
  for (size_t k = 0; k < missing.size(); ++k) {
    KernelModule& module = plan.modules[missing[k]];
    module.key = CudaSourceKey(module.source, sm);
    module.binary = std::move(cubins[k]);
  }
}

}  // namespace stator
