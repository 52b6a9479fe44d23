// What the GPU did and when, kernel by kernel, also inside captured graphs: CUPTI's activity
// records.
#pragma once

#include "runtime/step_activities.h"

#include <string>
#include <vector>

namespace stator {

// One at a time in a process: CUPTI's callbacks carry no context of ours.
class ActivityTrace {
 public:
  // Loads libcupti and attaches it, before the graphs to be traced are made; it traces until the
  // first Stop. Never throws: where it cannot work, why_not() says so and the rest must not be
  // called.
  ActivityTrace();
  ~ActivityTrace();
  ActivityTrace(const ActivityTrace&) = delete;
  ActivityTrace& operator=(const ActivityTrace&) = delete;

  const std::string& why_not() const { return why_not_; }

  // Kernels, copies and fills between the two calls; the device must be idle at both. Outside of
  // them nothing is traced. Both set `why_not` when that did not work, and clear it otherwise.
  void Start(std::string* why_not);
  std::vector<DeviceActivity> Stop(std::string* why_not);

 private:
  std::string Attach();
  std::string EnableAll();
  std::string DisableAll();

  std::string why_not_;
};

}  // namespace stator
