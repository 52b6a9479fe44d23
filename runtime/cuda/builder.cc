#include "runtime/cuda/builder.h"

#include "ir/base/error.h"
#include "runtime/cuda/attention_clear.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/kernels/sources.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/cuda/segment_sum.h"
#include "runtime/cuda/short_attention.h"
#include "runtime/cuda/sort.h"
#include "runtime/cuda/tensor_map.h"
#include "runtime/kernel_cache.h"

#include <algorithm>
#include <set>

namespace stator {
namespace {

std::string NameOf(const Program& program, const PlanStep& step) {
  return StrCat(step.name, " (", program.name, step.scope.empty() ? "" : ", ", step.scope, ")");
}

// Blocks that take turns are one a multiprocessor, in whole clusters.
int64_t BlocksOf(const KernelCall& call) {
  if (!call.persistent) return call.grid[0];
  const int64_t most =
      DeviceAttribute(cudaDevAttrMultiProcessorCount) / call.cluster * call.cluster;
  return std::min(call.grid[0], std::max<int64_t>(most, call.cluster));
}

class KernelStep : public CudaStep {
 public:
  // `prepare`: no call of this kernel and shape was prepared before.
  KernelStep(const KernelCall& call, CudaKernel kernel, const SpaceMap& spaces, std::string name,
             bool prepare)
      : kernel_(kernel), name_(std::move(name)) {
    for (int i = 0; i < 3; ++i) {
      const int64_t most = i == 0 ? 0x7fffffff : 65535;
      if (call.grid[i] < 1 || call.grid[i] > most) {
        Fail(ErrorCode::kInvalidArgument, "kernel ", name_, ": grid axis ", i, " has ",
             call.grid[i], " blocks, CUDA takes 1 to ", most);
      }
    }
    shape_.grid = dim3(static_cast<unsigned>(BlocksOf(call)), static_cast<unsigned>(call.grid[1]),
                       static_cast<unsigned>(call.grid[2]));
    shape_.block = static_cast<unsigned>(call.block);
    shape_.shared_bytes = static_cast<size_t>(call.shared_bytes);
    shape_.cluster = call.cluster;
    if (prepare) PrepareLaunch(kernel_, shape_, name_);
    for (const TileMap& map : call.maps) maps_.push_back(MakeTensorMap(map, spaces, name_));
    for (TensorMap& map : maps_) params_.push_back(&map);
    for (const BufferRef& arg : call.args) values_.push_back(spaces(arg));
    if (call.table) {  // the array itself is the parameter
      params_.push_back(values_.data());
    } else {
      for (char*& value : values_) params_.push_back(&value);
    }
  }
  void Enqueue(cudaStream_t stream) override {
    LaunchKernel(kernel_, shape_, params_.data(), stream, name_.c_str());
  }

 private:
  CudaKernel kernel_;
  LaunchShape shape_;
  std::vector<TensorMap> maps_;
  std::vector<char*> values_;
  std::vector<void*> params_;  // addresses of `maps_` and `values_`
  std::string name_;
};

class FillStep : public CudaStep {
 public:
  FillStep(const FillCall& call, const SpaceMap& spaces) : to_(spaces(call.buffer)), call_(call) {}
  void Enqueue(cudaStream_t stream) override {
    if (call_.bytes == 0) return;
    CheckCuda(cudaMemsetAsync(to_, call_.value, static_cast<size_t>(call_.bytes), stream), "fill");
  }

 private:
  char* to_;
  FillCall call_;
};

class CopyStep : public CudaStep {
 public:
  CopyStep(const CopyCall& call, const SpaceMap& spaces)
      : from_(spaces(call.from)), to_(spaces(call.to)), bytes_(static_cast<size_t>(call.bytes)) {}
  void Enqueue(cudaStream_t stream) override {
    if (bytes_ == 0) return;
    CheckCuda(cudaMemcpyAsync(to_, from_, bytes_, cudaMemcpyDeviceToDevice, stream), "copy");
  }

 private:
  char *from_, *to_;
  size_t bytes_;
};

}  // namespace

StepBuilder::StepBuilder(const Plan& plan, const StepBuilderOptions& options, KernelCache& cache)
    : plan_(plan), options_(options), kernels_(plan.kernels.size()) {
  // Everything that has to be compiled, at once; the plan's own binaries come first in `modules_`.
  std::set<std::string> segment_sources, attention_sources;
  bool sorts = false, clears = false;
  for (const Program& program : plan.programs) {
    for (const PlanStep& step : program.steps) {
      sorts |= std::holds_alternative<SortCall>(step.work);
      if (const auto* call = std::get_if<AttentionCall>(&step.work)) {
        clears |= NeedsClear(*call);
        if (IsShortAttention(*call, options.sm))
          attention_sources.insert(ShortAttentionSourceFor(*call));
      }
      if (const auto* call = std::get_if<SegmentSumCall>(&step.work)) {
        sorts = true;
        segment_sources.insert(SegmentSumSourceFor(*call, NameOf(program, step)));
      }
    }
  }
  std::vector<CudaSource> sources;
  for (size_t i = 0; i < plan.modules.size(); ++i) {
    if (plan.modules[i].language != Language::kCuda) {
      Fail(ErrorCode::kInvalidArgument, plan.name, ": module ", i, " is not CUDA");
    }
    if (plan.modules[i].binary.empty()) {
      sources.push_back({StrCat(plan.name, "_", i), plan.modules[i].source});
    }
  }
  if (sorts) sources.push_back({"sort", kSortSource});
  if (clears) sources.push_back({"attention_clear", kAttentionClearSource});
  for (const std::string& source : segment_sources) sources.push_back({"segment_sum", source});
  for (const std::string& source : attention_sources)
    sources.push_back({"short_attention", source});

  const std::vector<std::vector<char>> cubins = CompileCudaCached(sources, options.sm, cache);
  const auto waits = [&](const std::string& source) {
    return options.overlap && options.sm >= 90 && EveryKernelWaits(source);
  };
  size_t next = 0;
  for (size_t i = 0; i < plan.modules.size(); ++i) {
    const KernelModule& module = plan.modules[i];
    modules_.emplace_back(module.binary.empty() ? cubins[next++] : module.binary,
                          StrCat(plan.name, "_", i), waits(module.source));
  }
  if (sorts) sort_.emplace(cubins[next++], "sort", waits(kSortSource));
  if (clears) clear_.emplace(cubins[next++], "attention_clear", waits(kAttentionClearSource));
  for (const std::string& source : segment_sources) {
    segment_.emplace(source, CudaLibrary(cubins[next++], "segment_sum", waits(source)));
  }
  for (const std::string& source : attention_sources) {
    attention_.emplace(source, CudaLibrary(cubins[next++], "short_attention", waits(source)));
  }
}

StepBuilder::~StepBuilder() = default;

CublasLt& StepBuilder::lt() {
  if (lt_ == nullptr) {
    lt_ = std::make_unique<CublasLt>(options_.device_name, options_.tuning_file, options_.matmul);
  }
  return *lt_;
}

CudnnAttention& StepBuilder::cudnn() {
  if (cudnn_ == nullptr)
    cudnn_ = std::make_unique<CudnnAttention>(options_.device_name, options_.cache_dir);
  return *cudnn_;
}

int64_t StepBuilder::OwnWorkspace(const PlanStep& step) const {
  if (std::holds_alternative<MatMulCall>(step.work)) return kMatMulWorkspace;
  int64_t needed = 0, given = 0;
  if (const auto* call = std::get_if<SortCall>(&step.work)) {
    needed = SortWorkspace(*call), given = call->workspace_bytes;
  } else if (const auto* sum = std::get_if<SegmentSumCall>(&step.work)) {
    needed = SegmentSumWorkspace(*sum), given = sum->workspace_bytes;
  }
  return given >= needed ? 0 : needed;
}

const CudaLibrary& StepBuilder::SegmentLibrary(const SegmentSumCall& call,
                                               const std::string& name) const {
  return segment_.at(SegmentSumSourceFor(call, name));
}

CudaStepPtr StepBuilder::Build(const Program& program, const PlanStep& step, const SpaceMap& spaces,
                               char* own_workspace) {
  const std::string name = NameOf(program, step);
  const bool own = OwnWorkspace(step) > 0;
  struct Visitor {
    StepBuilder& b;
    const SpaceMap& spaces;
    const std::string& name;
    char* own;  // null: the plan's scratch suffices

    CudaStepPtr operator()(const KernelCall& call) const {
      const size_t k = static_cast<size_t>(call.kernel);
      const Kernel& kernel = b.plan_.kernels.at(k);
      if (b.kernels_[k].handle == nullptr) {
        b.kernels_[k] = b.modules_.at(static_cast<size_t>(kernel.module)).Find(kernel.name);
      }
      const bool fresh = b.prepared_.emplace(call.kernel, call.block, call.shared_bytes).second;
      return std::make_unique<KernelStep>(call, b.kernels_[k], spaces,
                                          StrCat(kernel.name, " of ", name), fresh);
    }
    CudaStepPtr operator()(const MatMulCall& call) const {
      return b.lt().Prepare(call, spaces, own, name);
    }
    CudaStepPtr operator()(const AttentionCall& call) const {
      if (IsShortAttention(call, b.options_.sm)) {
        return PrepareShortAttention(call, spaces, b.attention_.at(ShortAttentionSourceFor(call)),
                                     name);
      }
      CudaStepPtr step = b.cudnn().Prepare(call, spaces, name);
      if (!NeedsClear(call)) return step;
      return ClearAfter(std::move(step), call, spaces, *b.clear_);
    }
    CudaStepPtr operator()(const SortCall& call) const {
      return PrepareSort(call, spaces, own != nullptr ? own : spaces(call.workspace), *b.sort_,
                         name);
    }
    CudaStepPtr operator()(const SegmentSumCall& call) const {
      return PrepareSegmentSum(call, spaces, own != nullptr ? own : spaces(call.workspace),
                               *b.sort_, b.SegmentLibrary(call, name));
    }
    CudaStepPtr operator()(const FillCall& call) const {
      return std::make_unique<FillStep>(call, spaces);
    }
    CudaStepPtr operator()(const CopyCall& call) const {
      return std::make_unique<CopyStep>(call, spaces);
    }
  };
  return std::visit(Visitor{*this, spaces, name, own ? own_workspace : nullptr}, step.work);
}

void StepBuilder::SaveTuning() {
  if (lt_ != nullptr) lt_->SaveTuning();
}

}  // namespace stator
