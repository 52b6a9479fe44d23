// What a device can do and what things cost on it, as passes see it. A live provider answers from
// the device, a recorded table answers offline.
#pragma once

#include "ir/type.h"

#include <cstdint>
#include <string>

namespace stator {

enum class DeviceKind { kCpu, kCuda };

struct AttentionQuery {
  int64_t batch, heads, kv_heads, query_len, key_len, head_dim;
  DType dtype;
  bool causal, has_window, has_bias, has_segments, has_key_lengths, dropout, backward;
  bool deterministic;
  bool has_lse_gradient;  // backward: of the log-sum-exp as well
  int64_t q_offset;       // position of the first query among the keys
};

class Target {
 public:
  virtual ~Target() = default;

  virtual DeviceKind kind() const = 0;
  virtual std::string name() const = 0;        // "cpu", "h200"
  virtual int sm() const { return 0; }         // 90; 0 on a CPU
  virtual int64_t memory_bytes() const = 0;    // of the device
  virtual double peak_flops(DType) const = 0;  // dense matmul, per second; 0 when unknown
  virtual double bandwidth() const = 0;        // bytes per second; 0 when unknown
  // Whether the attention library takes this problem; if not, `why` says what is missing.
  virtual bool SupportsAttention(const AttentionQuery&, std::string* why) const = 0;
  // Scratch the attention library needs for it, bytes.
  virtual int64_t AttentionWorkspace(const AttentionQuery&) const { return 0; }
  // Memory that context, libraries and modules take besides the plan's, bytes; on an H200 with CUDA
  // 13 about 0.6 GiB were measured.
  virtual int64_t ReservedBytes() const {
    return kind() == DeviceKind::kCuda ? int64_t{640} << 20 : 0;
  }
  // Scratch set aside for one matmul, bytes.
  virtual int64_t MatmulWorkspace() const { return 0; }
};

}  // namespace stator
