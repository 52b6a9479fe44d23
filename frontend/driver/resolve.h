// Which value holds for each key: defaults, then what the checkpoint says when a run resumes, then
// the TOML file, then flags.
#pragma once

#include "frontend/driver/config.h"
#include "frontend/driver/device.h"

#include <string>
#include <vector>

namespace stator {

struct ConfigSources {
  std::string toml;  // "": none
  struct Flag {
    std::string key;
    StringList values;  // one, or the entries of a list
  };
  std::vector<Flag> flags;
};

// Throws `Error` (kInvalidArgument) for a bad key or value, for --resume without a checkpoint, and
// for a resumed model or what its states hang on (the optimizer, f16's loss scale) that differ from
// the checkpoint's.
TrainConfig ResolveConfig(const ConfigSources& sources);
// The same for reading a checkpoint back: it must be there, and gives the model.
TrainConfig ResolveForCheckpoint(const ConfigSources& sources);

// For the command line: fills in what no file and no flag gave and what depends on other things: a
// larger model where there is a GPU, a learning rate that falls with the width (3e-3 at 128, 5e-4
// at 768) and goes down to a tenth, a warm-up of a tenth of the run and at most 100 updates.
// Returns what was chosen for the GPU and why,
// "" when nothing was.
std::string ApplyDeviceDefaults(TrainConfig& config, const Target& target);

// dtype, with "auto" decided by the device.
DType ComputeDType(const TrainConfig& config, const Target& target);

}  // namespace stator
