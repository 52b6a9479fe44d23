#include "frontend/driver/resolve.h"

#include "frontend/driver/checkpoint.h"
#include "ir/base/error.h"

#include <algorithm>

namespace stator {
namespace {

void Apply(TrainConfig& config, const ConfigSources& sources) {
  if (!sources.toml.empty()) LoadToml(config, sources.toml);
  for (const auto& [key, values] : sources.flags) {
    SetConfigText(config, key, Join(values, "\n"), "--" + key);
  }
}

// Where and how a run goes on is for today's flags to say; what it computes is for the checkpoint.
bool FromCheckpoint(const ConfigKey& key) {
  constexpr std::string_view kToday[] = {"device",        "threads", "mode",  "fuse",
                                         "compile_cache", "out_dir", "resume"};
  return std::find(std::begin(kToday), std::end(kToday), key.name) == std::end(kToday);
}

TrainConfig OverCheckpoint(const ConfigSources& sources, const TrainConfig& asked) {
  const std::string directory = FindCheckpoint(asked.out_dir);
  if (directory.empty()) {
    Fail(ErrorCode::kInvalidArgument, "out_dir: there is no checkpoint in ", asked.out_dir);
  }
  const CheckpointInfo info = ReadCheckpointInfo(directory);
  TrainConfig config;
  for (const auto& [name, text] : info.config) {
    // A key that this version does not know any more decides nothing here.
    const ConfigKey* key = FindConfigKey(name);
    if (key && FromCheckpoint(*key)) SetConfigText(config, name, text, directory);
  }
  const TrainConfig saved = config;
  Apply(config, sources);
  for (const ConfigKey& key : ConfigKeys()) {
    if (key.group != ConfigGroup::kModel || key.name == "dropout") continue;
    if (ConfigText(config, key) != ConfigText(saved, key)) {
      Fail(ErrorCode::kInvalidArgument, key.name, ": ", ConfigText(config, key), " is asked for, ",
           ConfigText(saved, key), " is in ", directory);
    }
  }
  return config;
}

}  // namespace

TrainConfig ResolveConfig(const ConfigSources& sources) {
  TrainConfig config;
  Apply(config, sources);
  if (config.resume) config = OverCheckpoint(sources, config);
  return config;
}

TrainConfig ResolveForCheckpoint(const ConfigSources& sources) {
  TrainConfig asked;
  Apply(asked, sources);
  return OverCheckpoint(sources, asked);
}

std::string ApplyDeviceDefaults(TrainConfig& config, const Target& target) {
  if (target.kind() != DeviceKind::kCuda) return "";
  const std::pair<const char*, const char*> defaults[] = {{"n_layer", "6"},
                                                          {"n_head", "6"},
                                                          {"n_embd", "384"},
                                                          {"block_size", "256"},
                                                          {"batch_size", "64"}};
  for (const auto& [key, text] : defaults) {
    // One of them alone may not fit the others.
    if (config.given.contains(key)) return "";
  }
  for (const auto& [key, text] : defaults) SetConfigText(config, key, text, "default on a GPU");
  return "6 layers of width 384, block 256, batch 64: the default where there is a GPU";
}

DType ComputeDType(const TrainConfig& config, const Target& target) {
  if (config.dtype == "auto") {
    return target.kind() == DeviceKind::kCuda ? DType::kBF16 : DType::kF32;
  }
  return config.dtype == "bfloat16" || config.dtype == "bf16" ? DType::kBF16 : DType::kF32;
}

}  // namespace stator
