// Clocks, power and temperature from the driver's management library, which is loaded when asked
// for.
#pragma once

#include "runtime/timed_run.h"

namespace stator {

// Of CUDA device `device`, now. `why_not` says what is missing.
DeviceConditions ReadConditions(int device);

}  // namespace stator
