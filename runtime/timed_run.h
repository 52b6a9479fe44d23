// What a profiled run says: when each step of a program ran, and in what state the device was.
#pragma once

#include <string>
#include <vector>

namespace stator {

// Seconds from the beginning of the run's first step.
struct StepSpan {
  double start = 0, end = 0;
  double seconds() const { return end - start; }
};

struct TimedRun {
  std::vector<StepSpan> steps;  // of the program, in order
  std::string method;           // how they were timed, in a phrase
};

// As the device's driver reads them at one moment.
struct DeviceConditions {
  std::string why_not;  // "": they were read
  double sm_mhz = 0, memory_mhz = 0, watts = 0, celsius = 0;
};

}  // namespace stator
