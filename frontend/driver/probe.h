// `stator probe`: one value of a compiled step, looked at or saved.
#pragma once

#include "frontend/driver/config.h"

#include <cstdint>
#include <cstdio>
#include <string>

namespace stator {

struct ProbeOptions {
  std::string tensor;       // a name or pattern, see FindValues
  std::string output = {};  // .npy file; "": none
  int64_t after = 0;        // updates to run before
  FILE* out = stdout;
};

// Runs `after` updates and then one step by step, on the data and weights of `stator train` (those
// of the checkpoint with config.resume); nothing is saved but the value. Prints figures of every
// value that matches. Throws `Error`, also when several match and one is to be written.
void RunProbe(TrainConfig config, const ProbeOptions& options);

}  // namespace stator
