// This machine's processor as passes see it.
#include "runtime/cpu/memory.h"
#include "runtime/executor.h"

namespace stator {
namespace {

class CpuTarget : public Target {
 public:
  DeviceKind kind() const override { return DeviceKind::kCpu; }
  std::string name() const override { return "cpu"; }
  int64_t memory_bytes() const override { return PhysicalMemoryBytes(); }
  // Clock rates and units differ too much to guess: unknown.
  double peak_flops(DType) const override { return 0; }
  double bandwidth() const override { return 0; }

  // Our own tiles take every mask and gradient the op has.
  bool SupportsAttention(const AttentionQuery& query, std::string* why) const override {
    if (IsFloat(query.dtype)) return true;
    if (why != nullptr) *why = "attention needs a float dtype";
    return false;
  }
};

}  // namespace

std::unique_ptr<Target> MakeCpuTarget() { return std::make_unique<CpuTarget>(); }

}  // namespace stator
