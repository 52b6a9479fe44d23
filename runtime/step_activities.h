// Which step of a program a device's activity belongs to.
#pragma once

#include "codegen/plan.h"
#include "runtime/timed_run.h"

#include <cstdint>
#include <string>
#include <vector>

namespace stator {

// A kernel, copy or fill as the device ran it.
struct DeviceActivity {
  uint64_t start = 0, end = 0;  // ns, on the device's clock
  std::string kernel;           // its name; "" for a copy or a fill
};

// The spans of a program's steps from everything the device did in one run of it. The steps run one
// after another on one stream, so that activities in the order of their starts are the steps' in
// the plan's order: `counts[i]` of them are step i's. Generated kernels are held against their
// names. Returns why the activities do not fit the program, "" when they do.
std::string AssignActivities(const Plan& plan, const Program& program,
                             const std::vector<int>& counts, std::vector<DeviceActivity> activities,
                             std::vector<StepSpan>* spans);

}  // namespace stator
