// The live device as passes see it.
#include "ir/base/error.h"
#include "runtime/cuda/attention_cudnn.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/device.h"
#include "runtime/executor.h"
#include "runtime/kernel_cache.h"

#include <memory>
#include <mutex>

namespace stator {
namespace {

// Dense peak rates by name, per second, from the vendor's datasheets: f32, tf32 excluded; bf16 and
// f16; f8. Bytes per second.
struct Rates {
  const char* part;  // of the device's name
  double f32, f16, f8, bandwidth;
};
constexpr Rates kRates[] = {
    {"H200", 67e12, 989e12, 1979e12, 4.8e12},  {"H100 PCIe", 51e12, 756e12, 1513e12, 2.0e12},
    {"H100", 67e12, 989e12, 1979e12, 3.35e12}, {"GH200", 67e12, 989e12, 1979e12, 4.0e12},
    {"B200", 80e12, 2250e12, 4500e12, 8.0e12}, {"A100-SXM4-80GB", 19.5e12, 312e12, 0, 2.039e12},
    {"A100", 19.5e12, 312e12, 0, 1.555e12},    {"L40S", 91.6e12, 362e12, 733e12, 0.864e12},
    {"L4", 30.3e12, 121e12, 242e12, 0.3e12},   {"RTX 4090", 82.6e12, 165e12, 330e12, 1.008e12},
    {"RTX 3090", 35.6e12, 71e12, 0, 0.936e12},
};

class CudaTarget : public Target {
 public:
  explicit CudaTarget(int device)
      : device_(device), info_((UseCudaDevice(device), DescribeDevice(device))) {
    for (const Rates& rates : kRates) {
      if (rates_ == nullptr && info_.name.find(rates.part) != info_.name.npos) rates_ = &rates;
    }
  }

  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string name() const override { return info_.name; }
  int sm() const override { return info_.sm; }
  int64_t memory_bytes() const override { return info_.memory_bytes; }
  double bandwidth() const override { return rates_ == nullptr ? 0 : rates_->bandwidth; }
  double peak_flops(DType dtype) const override {
    if (rates_ == nullptr) return 0;
    switch (dtype) {
      case DType::kF32:
        return rates_->f32;
      case DType::kBF16:
      case DType::kF16:
        return rates_->f16;
      case DType::kF8E4M3:
      case DType::kF8E5M2:
        return rates_->f8;
      default:
        return 0;
    }
  }
  bool SupportsAttention(const AttentionQuery& query, std::string* why) const override {
    const std::lock_guard lock(mutex_);
    return cudnn().Supports(query, why);
  }
  int64_t AttentionWorkspace(const AttentionQuery& query) const override {
    const std::lock_guard lock(mutex_);
    return cudnn().Workspace(query);
  }
  int64_t MatmulWorkspace() const override { return kMatMulWorkspace; }

 private:
  // Created when first asked: a plan without attention needs no cuDNN. Programs are lowered in
  // threads, one of which asks at a time, on the device that CUDA keeps for each thread apart.
  CudnnAttention& cudnn() const {
    CheckCuda(cudaSetDevice(device_), StrCat("use GPU ", device_));
    if (cudnn_ == nullptr)
      cudnn_ = std::make_unique<CudnnAttention>(info_.name, KernelCacheDir(""));
    return *cudnn_;
  }

  int device_;
  DeviceInfo info_;
  const Rates* rates_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<CudnnAttention> cudnn_;
};

}  // namespace

std::unique_ptr<Target> MakeCudaTarget(int device) { return std::make_unique<CudaTarget>(device); }

}  // namespace stator
