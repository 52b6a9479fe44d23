#include "runtime/cuda/device.h"

#include "ir/base/error.h"
#include "runtime/cuda/attention_cudnn.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/executor.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nvrtc.h>
#if STATOR_WITH_NCCL
#include <nccl.h>
#endif

namespace stator {
namespace {

std::string CudaVersion(int v) { return StrCat(v / 1000, ".", v % 1000 / 10); }

int DriverVersion() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}

std::string WhyNoDevice() {
  const int driver = DriverVersion();
  if (driver == 0) return "no NVIDIA driver was found (libcuda.so.1 is missing or no GPU is there)";
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  (void)cudaGetLastError();
  if (status == cudaErrorInsufficientDriver) {
    return StrCat("the driver is for CUDA ", CudaVersion(driver), ", Stator was built for CUDA ",
                  CudaVersion(CUDART_VERSION), ": update the driver (580 or later for CUDA 13)");
  }
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) {
    return "the driver sees no GPU (is CUDA_VISIBLE_DEVICES empty?)";
  }
  if (status != cudaSuccess) return StrCat("CUDA does not start: ", cudaGetErrorString(status));
  return "";
}

std::string PathOf(const void* symbol) {
  Dl_info info{};
  return dladdr(symbol, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

LibraryFact Driver() {
  LibraryFact fact{"driver", "", "", ""};
  if (const int version = DriverVersion()) fact.version = "CUDA " + CudaVersion(version);
  if (void* handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL)) {
    fact.path = PathOf(dlsym(handle, "cuInit"));
    dlclose(handle);
  } else {
    fact.note = "libcuda.so.1 was not found";
  }
  return fact;
}

#if STATOR_WITH_NCCL
LibraryFact Nccl() {
  int v = 0;
  (void)ncclGetVersion(&v);
  return {"NCCL", StrCat(v / 10000, ".", v / 100 % 100, ".", v % 100),
          PathOf(reinterpret_cast<const void*>(&ncclGetVersion)), ""};
}
#else
LibraryFact Nccl() { return {"NCCL", "", "", "this build has no NCCL"}; }
#endif

}  // namespace

void UseCudaDevice(int device) {
  if (const std::string why = WhyNoDevice(); !why.empty()) {
    Fail(ErrorCode::kEnvironment, "no usable GPU: ", why);
  }
  int count = 0;
  CheckCuda(cudaGetDeviceCount(&count), "count devices");
  if (device < 0 || device >= count) {
    Fail(ErrorCode::kEnvironment, "there is no GPU ", device, ": ", count, " visible");
  }
  const DeviceInfo info = DescribeDevice(device);
  if (info.sm < kOldestSm) {
    Fail(ErrorCode::kEnvironment, "GPU ", device, " (", info.name, ") is sm_", info.sm,
         ": Stator needs sm_", kOldestSm, " (Ampere) or later");
  }
  CheckCuda(cudaSetDevice(device), StrCat("use GPU ", device, " (", info.name, ")"));
}

DeviceInfo DescribeDevice(int device) {
  cudaDeviceProp p{};
  CheckCuda(cudaGetDeviceProperties(&p, device), StrCat("ask for the properties of GPU ", device));
  return {p.name, p.major * 10 + p.minor, p.multiProcessorCount,
          static_cast<int64_t>(p.totalGlobalMem), p.l2CacheSize};
}

DeviceFacts FindDeviceFacts() {
  DeviceFacts facts;
  facts.why_no_device = WhyNoDevice();
  int count = 0;
  if (facts.why_no_device.empty()) CheckCuda(cudaGetDeviceCount(&count), "count devices");
  for (int i = 0; i < count; ++i) facts.devices.push_back(DescribeDevice(i));
  facts.libraries = {
      Driver(),
      {"CUDA runtime", CudaVersion(CUDART_VERSION), "", "linked into Stator"},
      {"NVRTC", NvrtcVersion(), PathOf(reinterpret_cast<const void*>(&nvrtcVersion)), ""},
      {"cuBLASLt", CublasLt::Version(), PathOf(reinterpret_cast<const void*>(&cublasLtGetVersion)),
       ""},
      CudnnFact(),
      Nccl(),
  };
  return facts;
}

bool HasCudaDevice(std::string* why_not) {
  std::string why = WhyNoDevice();
  if (why.empty() && DescribeDevice(0).sm < kOldestSm) {
    const DeviceInfo info = DescribeDevice(0);
    why = StrCat(info.name, " is sm_", info.sm, ", Stator needs sm_", kOldestSm, " or later");
  }
  if (why_not != nullptr) *why_not = why;
  return why.empty();
}

}  // namespace stator
