// The clock that durations are measured with.
#pragma once

#include <chrono>

namespace stator {

// Seconds since some fixed moment; never set back.
inline double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace stator
