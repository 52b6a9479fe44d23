// The CUDA device and the libraries around it, as found on this machine.
#pragma once

#include "ir/target.h"

#include <string>
#include <vector>

namespace stator {

inline constexpr int kOldestSm = 80;

// Throws `Error` (kEnvironment) saying why there is no such device or why it cannot work: no
// driver, one too old for the CUDA runtime, no such ordinal, an architecture before sm_80. Makes it
// current.
void UseCudaDevice(int device);

struct DeviceInfo {
  std::string name;  // "NVIDIA H200"
  int sm = 0;        // 90
  int multiprocessors = 0;
  int64_t memory_bytes = 0;
  int64_t l2_bytes = 0;
};
DeviceInfo DescribeDevice(int device);

// A library as it was loaded.
struct LibraryFact {
  std::string name;     // "cuBLASLt"
  std::string version;  // "13.1.0"; "" when absent
  std::string path;     // of the file it came from; "" for the static runtime
  std::string note;     // why it is missing or will not work
};

// What `stator doctor` prints; needs neither a GPU nor a driver.
struct DeviceFacts {
  std::string why_no_device;  // "" when one can be used
  std::vector<DeviceInfo> devices;
  std::vector<LibraryFact> libraries;  // driver, runtime, NVRTC, cuBLASLt, cuDNN, NCCL
};
DeviceFacts FindDeviceFacts();

}  // namespace stator
