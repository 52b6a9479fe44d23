// Memory that library steps use while they run: sized over all steps at load, shared by them.
#pragma once

#include "runtime/cpu/memory.h"

#include <algorithm>
#include <cstdint>

namespace stator {

struct ScratchNeed {
  int64_t shared = 0;      // bytes for the step as a whole
  int64_t per_thread = 0;  // and for each of its threads

  void Grow(const ScratchNeed& other) {
    shared = std::max(shared, other.shared);
    per_thread = std::max(per_thread, other.per_thread);
  }
};

class CpuScratch {
 public:
  CpuScratch() = default;
  CpuScratch(const ScratchNeed& need, int threads)
      : per_thread_((need.per_thread + kApart - 1) / kApart * kApart),
        threads_(threads),
        shared_(need.shared, "scratch"),
        threads_block_(per_thread_ * threads, "scratch of threads") {}

  char* shared() const { return shared_.data(); }
  char* ForThread(int thread) const { return threads_block_.data() + thread * per_thread_; }
  int threads() const { return threads_; }
  int64_t bytes() const { return shared_.size() + threads_block_.size(); }

 private:
  static constexpr int64_t kApart = 4096;  // threads do not share pages

  int64_t per_thread_ = 0;
  int threads_ = 1;
  CpuBlock shared_, threads_block_;
};

}  // namespace stator
