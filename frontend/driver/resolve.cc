#include "frontend/driver/resolve.h"

#include "frontend/driver/checkpoint.h"
#include "frontend/driver/models.h"
#include "ir/base/error.h"

#include <algorithm>

namespace stator {
namespace {

void Apply(TrainConfig& config, const ConfigSources& sources) {
  if (!sources.toml.empty()) LoadToml(config, sources.toml);
  for (const auto& [key, values] : sources.flags) {
    const std::string where = "--" + key;
    const ConfigKey* known = FindConfigKey(key);
    if (known != nullptr && std::holds_alternative<StringList TrainConfig::*>(known->field)) {
      SetConfig(config, key, values, where);
    } else {
      SetConfigText(config, key, Join(values, "\n"), where);
    }
  }
}

// Where and how a run goes on is for today's flags to say; what it computes is for the checkpoint.
bool FromCheckpoint(const ConfigKey& key) {
  constexpr std::string_view kToday[] = {"device", "threads",       "mode",    "fuse",
                                         "memory", "compile_cache", "out_dir", "resume"};
  return std::find(std::begin(kToday), std::end(kToday), key.name) == std::end(kToday);
}

// What a key comes to: 0 may stand for another value, and a dtype has two names.
std::string Meaning(const TrainConfig& config, const ConfigKey& key) {
  if (key.name == "n_kv_head") return std::to_string(KeyValueHeads(config));
  if (key.name == "ffn_dim") return std::to_string(FfnDim(config));
  // Token files have no default, so 0 was for text.
  if (key.name == "vocab_size") return std::to_string(config.vocab_size ? config.vocab_size : 256);
  if (const auto dtype = NamedDType(config); dtype && key.name == "dtype") {
    return std::string(Name(*dtype));
  }
  return ConfigText(config, key);
}

// The key's text, with what a 0 stands for: "0 (256)".
std::string Shown(const TrainConfig& config, const ConfigKey& key) {
  if (const auto* member = std::get_if<StringList TrainConfig::*>(&key.field)) {
    return (config.**member).empty() ? "none" : Join(config.**member, ", ");
  }
  const std::string text = ConfigText(config, key), meaning = Meaning(config, key);
  if (text.empty()) return "none";
  return text == "0" && meaning != "0" ? StrCat(text, " (", meaning, ")") : text;
}

bool IsF16(const TrainConfig& config) { return NamedDType(config) == DType::kF16; }

// Whether a run cannot go on from states of `then` with `now`: their names or meaning hang on it,
// or it says only how a run begins.
bool IsOfTheStart(const ConfigKey& key, const TrainConfig& now, const TrainConfig& then) {
  // f16 alone has a loss scale, dropout a seed, and momentum a moment.
  if (key.name == "dtype") return IsF16(now) != IsF16(then);
  if (key.name == "loss_scale") return IsF16(now);
  if (key.name == "dropout") return (now.dropout > 0) != (then.dropout > 0);
  if (key.name == "momentum") {
    return now.optimizer == "sgd" && (now.momentum > 0) != (then.momentum > 0);
  }
  return key.name == "optimizer" || key.name == "init_from";
}

// `resumes`: every state is to be restored, and not the parameters alone.
TrainConfig OverCheckpoint(const ConfigSources& sources, const TrainConfig& asked, bool resumes) {
  std::string directory;
  CheckpointInfo info;
  WithCheckpoint(asked.out_dir, [&](const std::string& found) {
    if (found.empty()) {
      Fail(ErrorCode::kInvalidArgument, "out_dir: there is no checkpoint in ", asked.out_dir);
    }
    info = ReadCheckpointInfo(directory = found);
  });
  TrainConfig config;
  const auto model = info.config.find("model");
  for (const auto& [name, text] : info.config) {
    // A key that this version does not know any more decides nothing here, nor does one that the
    // saved model does not read: older versions saved whatever was given.
    const ConfigKey* key = FindConfigKey(name);
    if (key == nullptr || !FromCheckpoint(*key)) continue;
    if (model != info.config.end() && !ModelReads(model->second, name)) continue;
    SetConfigText(config, name, text, directory);
  }
  const TrainConfig saved = config;
  Apply(config, sources);
  if (config.model == saved.model) RequireModelKeys(config);
  for (const ConfigKey& key : ConfigKeys()) {
    if (Meaning(config, key) == Meaning(saved, key) || !FromCheckpoint(key)) continue;
    const std::string now = Shown(config, key), then = Shown(saved, key);
    if (key.group == ConfigGroup::kModel && key.name != "dropout") {
      Fail(ErrorCode::kInvalidArgument, key.name, ": ", now, " is asked for, ", then, " is in ",
           directory, "; without ", key.name, " the checkpoint's value holds, and another model ",
           "needs another out_dir");
    }
    if (resumes && IsOfTheStart(key, config, saved)) {
      Fail(ErrorCode::kInvalidArgument, key.name, ": ", now, " is asked for, a run of '", then,
           "' is in ", directory, "; a new run can begin with its weights: --init_from ", directory,
           "/model.safetensors");
    }
    if (key.group != ConfigGroup::kRun && key.group != ConfigGroup::kSample) {
      config.notes.push_back(StrCat(key.name, " is ", now, ", it was ", then));
    }
  }
  return config;
}

// 3e-3 suits a width of 128, and wider models want less.
constexpr double kRateTimesWidth = 0.384;

// False when a key that it would set was given: one of them alone may not fit the others.
bool ApplyLargerModel(TrainConfig& config) {
  constexpr std::string_view kKeys[] = {"n_layer", "n_head", "n_embd", "block_size", "batch_size"};
  for (std::string_view key : kKeys) {
    if (config.given.contains(std::string(key))) return false;
  }
  config.n_layer = 6, config.n_head = 6, config.n_embd = 384;
  config.block_size = 256, config.batch_size = 64;
  return true;
}

}  // namespace

TrainConfig ResolveConfig(const ConfigSources& sources) {
  TrainConfig config;
  Apply(config, sources);
  if (config.resume) config = OverCheckpoint(sources, config, /*resumes=*/true);
  return config;
}

TrainConfig ResolveForCheckpoint(const ConfigSources& sources) {
  TrainConfig asked;
  Apply(asked, sources);
  return OverCheckpoint(sources, asked, /*resumes=*/false);
}

std::string ApplyDeviceDefaults(TrainConfig& config, const Target& target) {
  const bool larger = target.kind() == DeviceKind::kCuda && ApplyLargerModel(config);
  if (!config.given.contains("learning_rate")) {
    config.learning_rate = kRateTimesWidth / static_cast<double>(config.n_embd);
  }
  if (!config.given.contains("min_lr")) config.min_lr = config.learning_rate / 10;
  if (!config.given.contains("warmup_iters")) {
    config.warmup_iters = std::min<int64_t>(100, config.max_iters / 10);
  }
  return larger ? "6 layers of width 384, block 256, batch 64: the default where there is a GPU"
                : "";
}

DType ComputeDType(const TrainConfig& config, const Target& target) {
  if (const auto named = NamedDType(config)) return *named;
  return target.kind() == DeviceKind::kCuda ? DType::kBF16 : DType::kF32;
}

}  // namespace stator
