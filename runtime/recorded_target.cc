// Devices from a recorded table, so that a job can be planned on a machine without them. Dense peak
// rates are the datasheets', memory is what the driver reports as usable.
#include "ir/base/error.h"
#include "runtime/executor.h"
#include "runtime/fused_attention.h"

#include <algorithm>

namespace stator {
namespace {

struct Record {
  const char* name;
  int sm;
  double gibibytes;           // of device memory
  double bandwidth;           // bytes per second
  double f64, f32, half, f8;  // operations per second; f32 without TF32; half: bf16 and f16
};

constexpr Record kRecords[] = {
    {"a100", 80, 39.4, 1.555e12, 9.7e12, 19.5e12, 312e12, 0},
    {"a100-80gb", 80, 79.3, 2.039e12, 9.7e12, 19.5e12, 312e12, 0},
    {"a10", 86, 22.1, 0.600e12, 0.49e12, 31.2e12, 125e12, 0},
    {"rtx3090", 86, 23.7, 0.936e12, 0.56e12, 35.6e12, 71e12, 0},
    {"l4", 89, 22.2, 0.300e12, 0.47e12, 30.3e12, 121e12, 242e12},
    {"l40s", 89, 44.4, 0.864e12, 1.4e12, 91.6e12, 362e12, 733e12},
    {"rtx4090", 89, 23.6, 1.008e12, 1.3e12, 82.6e12, 165e12, 330e12},
    {"h100", 90, 79.2, 3.352e12, 34e12, 67e12, 989e12, 1979e12},
    {"h100-pcie", 90, 79.2, 2.039e12, 26e12, 51e12, 756e12, 1513e12},
    {"gh200", 90, 94.5, 4.0e12, 34e12, 67e12, 989e12, 1979e12},
    {"h200", 90, 139.8, 4.8e12, 34e12, 67e12, 989e12, 1979e12},
    {"b200", 100, 178.0, 8.0e12, 40e12, 80e12, 2250e12, 4500e12},
};

class RecordedTarget : public Target {
 public:
  explicit RecordedTarget(const Record& record) : record_(record) {}

  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string name() const override { return record_.name; }
  int sm() const override { return record_.sm; }
  int64_t memory_bytes() const override {
    return static_cast<int64_t>(record_.gibibytes * (int64_t{1} << 30));
  }
  double bandwidth() const override { return record_.bandwidth; }
  double peak_flops(DType dtype) const override {
    switch (dtype) {
      case DType::kF64:
        return record_.f64;
      case DType::kF32:
        return record_.f32;
      case DType::kBF16:
      case DType::kF16:
        return record_.half;
      case DType::kF8E4M3:
      case DType::kF8E5M2:
        return record_.f8;
      default:
        return 0;
    }
  }

  bool SupportsAttention(const AttentionQuery& query, std::string* why) const override {
    std::string reason = WhyNotFused(query);
    if (reason.empty() &&
        query.head_dim > 128) {  // a live device asks cuDNN, which takes more on some
      reason = StrCat("the head size must be at most 128, got ", query.head_dim);
    }
    if (why != nullptr) *why = reason;
    return reason.empty();
  }
  // Measured on an H200 (docs/notes/h200-spikes.md): the deterministic backward keeps dP in bf16,
  // any backward a few f32 values a row and dq in f32.
  int64_t AttentionWorkspace(const AttentionQuery& q) const override {
    if (!q.backward) return kSlack;
    const int64_t rows = q.batch * q.heads * q.query_len;
    const int64_t scores = q.deterministic ? 2 * rows * q.key_len : 0;
    return scores + 4 * rows * q.head_dim + 16 * rows + kSlack;
  }
  int64_t MatmulWorkspace() const override { return int64_t{32} << 20; }

 private:
  static constexpr int64_t kSlack = int64_t{1} << 20;

  const Record& record_;
};

}  // namespace

std::unique_ptr<Target> MakeRecordedTarget(const std::string& name) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::vector<std::string> known;
  for (const Record& record : kRecords) {
    if (record.name == lower) return std::make_unique<RecordedTarget>(record);
    known.push_back(record.name);
  }
  Fail(ErrorCode::kInvalidArgument, "no device named ", name, " is recorded; there are ",
       Join(known, ", "));
}

}  // namespace stator
