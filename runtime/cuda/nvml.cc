// NVML's few functions are declared here: its header is not part of every toolkit.
#include "runtime/cuda/nvml.h"

#include "ir/base/str.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

namespace stator {
namespace {

constexpr int kSuccess = 0, kClockSm = 1, kClockMemory = 2, kTemperatureGpu = 0;  // nvml.h's values

// The library, loaded once and kept: it is initialized and asked again and again.
struct Nvml {
  using Handle = void*;
  int (*init)() = nullptr;
  int (*find)(const char*, Handle*) = nullptr;
  int (*clock)(Handle, int, unsigned*) = nullptr;
  int (*power)(Handle, unsigned*) = nullptr;
  int (*temperature)(Handle, int, unsigned*) = nullptr;
  std::string why_not;

  Nvml() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      why_not = "libnvidia-ml.so.1 was not found";
      return;
    }
    Find(library, "nvmlInit_v2", init);
    Find(library, "nvmlDeviceGetHandleByPciBusId_v2", find);
    Find(library, "nvmlDeviceGetClockInfo", clock);
    Find(library, "nvmlDeviceGetPowerUsage", power);
    Find(library, "nvmlDeviceGetTemperature", temperature);
    if (!why_not.empty()) return;
    if (const int status = init(); status != kSuccess)
      why_not = StrCat("NVML does not start: error ", status);
  }

  template <typename F>
  void Find(void* library, const char* name, F& function) {
    function = reinterpret_cast<F>(dlsym(library, name));
    if (function == nullptr) why_not = StrCat("libnvidia-ml.so.1 has no ", name);
  }
};

}  // namespace

DeviceConditions ReadConditions(int device) {
  static const Nvml nvml;
  DeviceConditions out;
  if (!nvml.why_not.empty()) return {.why_not = nvml.why_not};
  char bus[32] = {};  // CUDA's and NVML's ordinals differ
  if (const cudaError_t status = cudaDeviceGetPCIBusId(bus, sizeof bus, device);
      status != cudaSuccess) {
    return {.why_not = StrCat("GPU ", device, " has no bus id: ", cudaGetErrorString(status))};
  }
  Nvml::Handle handle = nullptr;
  if (const int status = nvml.find(bus, &handle); status != kSuccess) {
    return {.why_not = StrCat("NVML does not know GPU ", bus, ": error ", status)};
  }
  const auto read = [&](const char* what, int status, unsigned value) {
    if (status != kSuccess)
      out.why_not = StrCat("NVML does not read the ", what, ": error ", status);
    return static_cast<double>(value);
  };
  unsigned v = 0;
  int status = nvml.clock(handle, kClockSm, &v);
  out.sm_mhz = read("SM clock", status, v);
  status = nvml.clock(handle, kClockMemory, &v);
  out.memory_mhz = read("memory clock", status, v);
  status = nvml.power(handle, &v);
  out.watts = read("power", status, v) / 1000;
  status = nvml.temperature(handle, kTemperatureGpu, &v);
  out.celsius = read("temperature", status, v);
  return out;
}

}  // namespace stator
