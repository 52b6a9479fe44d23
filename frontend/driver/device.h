// Which device a run takes, and why.
#pragma once

#include "ir/target.h"

#include <memory>
#include <string>

namespace stator {

struct Device {
  std::unique_ptr<Target> target;
  int ordinal = 0;   // of a GPU
  bool live = true;  // false: a recorded table, to plan with and not to run on
  std::string why;   // of "auto": "no NVIDIA driver is loaded"; "" when asked for by name
};

// "auto" takes the first GPU when there is one, else the CPU; "cpu", "cuda", "cuda:1" take what
// they say. Throws `Error` (kInvalidArgument, kEnvironment).
Device ChooseDevice(const std::string& name);
// A GPU that need not be there, from its recorded table: "h200".
Device RecordedDevice(const std::string& gpu);

}  // namespace stator
