// `stator profile`: where the time of an update goes, step by step, against what the device can do.
#pragma once

#include "frontend/driver/config.h"
#include "frontend/driver/profile_data.h"

#include <cstdint>
#include <cstdio>
#include <string>

namespace stator {

inline constexpr int64_t kMostProfiledUpdates = 100'000;  // all their times are kept

struct ProfileOptions {
  StringList compare = {};  // "fused", "unfused": the first one in full; none: as config.fuse says
  int64_t steps = 20, warmup = 3;                // updates: timed; before that
  std::string html = {}, trace = {}, json = {};  // files to write; "": none
  FILE* out = stdout;
};

// Trains `warmup` and then twice `steps` updates: by the host's clock, and with every step timed.
// Without `config.data` the tokens are random; weights are the initializers', or the checkpoint's
// with config.resume. Nothing is saved. Prints ProfileText and writes the files. Throws `Error`.
void RunProfile(TrainConfig config, const ProfileOptions& options);

// The measurement alone, of one variant.
Profile MeasureProfile(const TrainConfig& config, const std::string& variant,
                       const Ceilings& ceilings, const ProfileOptions& options);

}  // namespace stator
