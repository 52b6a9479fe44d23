// The best that a device does, measured: what a profile holds its steps against.
#pragma once

#include "frontend/driver/device.h"
#include "ir/dtype.h"
#include "runtime/executor.h"

#include <map>

namespace stator {

struct Ceilings {
  double copy = 0;                 // bytes a second, read and written, by a copy larger than caches
  std::map<DType, double> matmul;  // flops a second of a large product, by its operands' dtype
  // Of a step that multiplies in `dtype`; that of f32 for a dtype that was not measured.
  double Flops(DType dtype) const;
};

// Runs a plan of one copy and of one product in f32 and in `dtype` each, timed like any plan's
// steps; takes seconds, and about 1 GiB of the device's memory while it runs. Throws `Error`.
Ceilings MeasureCeilings(const Device& device, const ExecutorOptions& options, DType dtype);

}  // namespace stator
