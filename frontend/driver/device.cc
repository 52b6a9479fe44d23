#include "frontend/driver/device.h"

#include "ir/base/error.h"
#include "runtime/executor.h"

#include <charconv>

namespace stator {

Device ChooseDevice(const std::string& name) {
  Device device;
  if (name == "cpu") {
    device.target = MakeCpuTarget();
    return device;
  }
  if (name == "auto") {
    std::string why_not;
    const bool gpu = HasCudaDevice(&why_not);
    device.target = gpu ? MakeCudaTarget(0) : MakeCpuTarget();
    device.why = gpu ? "the first GPU there is" : why_not;
    return device;
  }
  if (name.starts_with("cuda")) {
    const std::string_view rest = std::string_view(name).substr(4);
    int ordinal = rest.empty() ? 0 : -1;
    if (rest.starts_with(':')) {
      const auto [end, error] =
          std::from_chars(rest.data() + 1, rest.data() + rest.size(), ordinal);
      if (error != std::errc() || end != rest.data() + rest.size()) ordinal = -1;
    }
    if (ordinal >= 0) {
      std::string why_not;
      if (!HasCudaDevice(&why_not)) Fail(ErrorCode::kEnvironment, "device ", name, ": ", why_not);
      device.target = MakeCudaTarget(ordinal);
      device.ordinal = ordinal;
      return device;
    }
  }
  Fail(ErrorCode::kInvalidArgument, "device: '", name, "' is not auto, cpu, cuda or cuda:N");
}

Device RecordedDevice(const std::string& gpu) {
  Device device;
  device.target = MakeRecordedTarget(gpu);
  device.live = false;
  return device;
}

}  // namespace stator
