// Where a buffer lives. Shared by the memory planner, which leaves it as a fact, and the plan.
#pragma once

#include <cstdint>

namespace stator {

// Every space is one allocation with a fixed base address.
enum class Space : int {
  kNone = 0,   // absent
  kState = 1,  // parameters, moments, counters: live between runs
  kArena = 2,  // scratch of one run, shared by all programs
  kIo = 3,     // inputs and outputs of programs
};

inline constexpr int64_t kBufferAlignment = 256;  // bytes, of every buffer

constexpr int64_t AlignBuffer(int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

}  // namespace stator
