#include "frontend/driver/ceilings.h"

#include "ir/base/error.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

namespace stator {
namespace {

constexpr int kWarmup = 2, kRuns = 7;
constexpr int64_t kCopyBytes = int64_t{256} << 20;

// Square products: large enough for the device's best, small enough to take no time.
int64_t ProductSize(DeviceKind kind, DType dtype) {
  if (kind == DeviceKind::kCuda) return dtype == DType::kF32 ? 4096 : 8192;
  return dtype == DType::kF32 ? 2048 : 1024;
}

TensorRef AddState(Plan& plan, const std::string& name, const Type& type) {
  StateEntry state;
  state.name = name, state.type = type, state.offset = plan.state_bytes, state.role = "parameter";
  plan.state_bytes += AlignBuffer(type.Bytes());
  plan.states.push_back(state);
  Dims strides(type.shape.size(), 1);
  for (size_t axis = strides.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * type.shape[axis];
  return {{Space::kState, state.offset}, type, strides};
}

void AddProgram(Plan& plan, const std::string& name, StepWork work) {
  Program& program = plan.programs.emplace_back();
  program.name = name;
  PlanStep& step = program.steps.emplace_back();
  step.name = name;
  step.work = std::move(work);
}

std::string ProductName(DType dtype) { return StrCat("matmul_", Name(dtype)); }

Plan MakePlan(const Target& target, const std::set<DType>& dtypes) {
  Plan plan;
  plan.name = "ceilings";
  plan.device = target.kind();
  plan.target = target.kind() == DeviceKind::kCuda ? StrCat("sm_", target.sm()) : target.name();
  CopyCall copy;
  copy.from = AddState(plan, "from", {DType::kU8, {kCopyBytes}}).buffer;
  copy.to = AddState(plan, "to", {DType::kU8, {kCopyBytes}}).buffer;
  copy.bytes = kCopyBytes;
  AddProgram(plan, "copy", copy);
  for (const DType dtype : dtypes) {
    const int64_t n = ProductSize(target.kind(), dtype);
    const std::string name = ProductName(dtype);
    MatMulCall call;
    call.a = AddState(plan, name + "/a", {dtype, {n, n}});
    call.b = AddState(plan, name + "/b", {dtype, {n, n}});
    call.d = AddState(plan, name + "/d", {dtype, {n, n}});
    call.tuning_key = name;
    AddProgram(plan, name, call);
  }
  return plan;
}

// Numbers in [-1, 1): a chip runs faster on zeros.
std::vector<char> Noise(DType dtype, int64_t elements) {
  std::vector<char> bytes(static_cast<size_t>(elements * ByteWidth(dtype)));
  uint32_t bits = 1;
  for (int64_t i = 0; i < elements; ++i) {
    bits = bits * 1664525u + 1013904223u;
    const float v = static_cast<float>(static_cast<int32_t>(bits)) * 0x1p-31f;
    if (dtype == DType::kF32) {
      std::memcpy(bytes.data() + i * 4, &v, 4);
    } else {
      const uint16_t narrow = FloatToBits16(dtype, v);
      std::memcpy(bytes.data() + i * 2, &narrow, 2);
    }
  }
  return bytes;
}

double MedianSeconds(Executor& executor, const std::string& program) {
  std::vector<double> seconds;
  for (int i = 0; i < kWarmup + kRuns; ++i) {
    const double s = executor.RunTimed(program, {}).steps.at(0).seconds();
    if (i >= kWarmup) seconds.push_back(s);
  }
  std::sort(seconds.begin(), seconds.end());
  return std::max(seconds[seconds.size() / 2], 1e-9);
}

}  // namespace

double Ceilings::Flops(DType dtype) const {
  const auto it = matmul.find(dtype);
  return it != matmul.end() ? it->second : matmul.at(DType::kF32);
}

Ceilings MeasureCeilings(const Device& device, const ExecutorOptions& options, DType dtype) {
  const std::set<DType> dtypes = {DType::kF32, dtype};
  const DeviceKind kind = device.target->kind();
  const auto executor = MakeExecutor(MakePlan(*device.target, dtypes), options);
  Ceilings out;
  out.copy = 2.0 * kCopyBytes / MedianSeconds(*executor, "copy");
  for (const DType d : dtypes) {
    const int64_t n = ProductSize(kind, d);
    const std::vector<char> noise = Noise(d, n * n);
    for (const char* operand : {"/a", "/b"}) executor->WriteState(ProductName(d) + operand, noise);
    const auto side = static_cast<double>(n);
    out.matmul[d] = 2 * side * side * side / MedianSeconds(*executor, ProductName(d));
  }
  return out;
}

}  // namespace stator
