// What a training run is told: one record a key, under the names people know from nanoGPT. TOML
// files, flags, checkpoints and the help text all read the same table.
#pragma once

#include "ir/dtype.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace stator {

using StringList = std::vector<std::string>;

struct TrainConfig {
  // The model.
  std::string model = "gpt2";
  int64_t n_layer = 4, n_head = 4, n_kv_head = 0, n_embd = 128, block_size = 128, vocab_size = 0;
  int64_t ffn_dim = 0;
  double dropout = 0, norm_eps = 1e-5, rope_theta = 10000;
  bool bias = true, qkv_bias = false, qk_norm = false, tie_weights = true;

  // The data.
  StringList data, val_data;
  double val_fraction = 0.1;
  std::string data_dtype = "uint16";

  // The optimization.
  int64_t batch_size = 16, gradient_accumulation_steps = 1, max_iters = 2000;
  std::string optimizer = "adamw";
  double learning_rate = 3e-3, min_lr = 3e-4;
  std::string schedule = "cosine";
  int64_t warmup_iters = 100, lr_decay_iters = 0;
  double weight_decay = 0.1, beta1 = 0.9, beta2 = 0.99, momentum = 0.9, grad_clip = 1;
  int64_t seed = 1337;
  std::string init_from;

  // The device and the compiler.
  std::string device = "auto", dtype = "auto";
  StringList keep_f32;
  double loss_scale = 65536;
  int64_t loss_scale_interval = 2000;
  int64_t threads = 0;
  bool fuse = true, fast = false, own_matmul = true;
  std::string numerics = "default", mode = "graph", memory, compile_cache;

  // The run.
  int64_t eval_interval = 250, eval_iters = 20, log_interval = 0, checkpoint_interval = 0;
  std::string out_dir = "out";
  bool resume = false;

  // The sample at the end, and `stator sample`.
  int64_t sample_tokens = 400;
  std::string prompt = "\n";
  double temperature = 0.8;
  int64_t top_k = 0;

  StringList notes;  // defaults of the device, changes since a checkpoint; for the header
  std::set<std::string> given;  // keys that a file, a flag or a checkpoint set
};

enum class ConfigGroup { kModel, kData, kOptimization, kDevice, kRun, kSample };

using ConfigValue = std::variant<bool, int64_t, double, std::string, StringList>;

struct ConfigKey {
  using Field = std::variant<bool TrainConfig::*, int64_t TrainConfig::*, double TrainConfig::*,
                             std::string TrainConfig::*, StringList TrainConfig::*>;
  std::string_view name;
  ConfigGroup group;
  Field field;
  std::string_view help;
  double min = 0, max = 1e18;     // of numbers
  std::string_view choices = {};  // of strings: a|b|c; empty: any
};

std::span<const ConfigKey> ConfigKeys();
const ConfigKey* FindConfigKey(std::string_view name);  // null when unknown

// Sets one key. `where` ends the message: "--n_layer", "train.toml:3". Throws `Error`
// (kInvalidArgument) naming the key, the value and what would be accepted.
void SetConfig(TrainConfig& config, std::string_view key, const ConfigValue& value,
               const std::string& where);
// The same from text, as on the command line: 6, 1e-3, true; the entries of a list end in newlines.
void SetConfigText(TrainConfig& config, std::string_view key, std::string_view text,
                   const std::string& where);
// The same for words "key=value", as test and benchmark programs take them.
void SetConfigWords(TrainConfig& config, std::span<char* const> words);
// Every key of a TOML file (config_toml.cc). Throws `Error` (kIo, kParse, kInvalidArgument).
void LoadToml(TrainConfig& config, const std::string& path);

// What words such as on and no say; nullopt for any other.
std::optional<bool> ParseBool(std::string_view text);
// What key `dtype` names, as f16 or float16; nullopt for "auto".
std::optional<DType> NamedDType(const TrainConfig& config);
// Bytes of key `memory`, 24GiB, 512MiB or 1000000000; 0 where it is empty. Throws `Error`
// (kInvalidArgument) for anything else.
int64_t MemoryBudget(const TrainConfig& config);

// Whether `model` has a use for `key`.
bool ModelReads(std::string_view model, std::string_view key);
// Throws `Error` (kInvalidArgument) for a key that was given and that the model does not read: it
// would be a wish without effect.
void RequireModelKeys(const TrainConfig& config);

// Checks that involve several keys: heads divide the width, and so on.
void ValidateConfig(const TrainConfig& config);

// Key to text, for checkpoints and the header; SetConfigText reads it back.
std::map<std::string, std::string> ConfigText(const TrainConfig& config);
std::string ConfigText(const TrainConfig& config, const ConfigKey& key);

// ", did you mean 'n_layer' or 'n_head'?" for a misspelt word; "" when nothing is near.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& known);
// The same for a pattern, and where nothing is near, some of the names: "; there are 40 names, such
// as wte, wpe".
std::string NearNames(std::string_view pattern, const std::vector<std::string>& known);

}  // namespace stator
