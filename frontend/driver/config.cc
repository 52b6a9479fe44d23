#include "frontend/driver/config.h"

#include "frontend/driver/json.h"
#include "ir/base/error.h"

#include <algorithm>
#include <charconv>

namespace stator {
namespace {

// Between the entries of a list in text: file names may hold anything else.
constexpr std::string_view kListSeparator = "\n";

constexpr double kInt32Max = 2147483647;

using T = TrainConfig;
using enum ConfigGroup;

constexpr ConfigKey kKeys[] = {
    {"model", kModel, &T::model, "architecture", 0, 0, "gpt2|llama"},
    {"n_layer", kModel, &T::n_layer, "transformer blocks", 1, 4096},
    {"n_head", kModel, &T::n_head, "attention heads", 1, 4096},
    {"n_kv_head", kModel, &T::n_kv_head, "key/value heads of llama; 0: n_head", 0, 4096},
    {"n_embd", kModel, &T::n_embd, "width of the residual stream", 1, 1 << 20},
    {"block_size", kModel, &T::block_size, "tokens of context", 1, 1 << 24},
    {"vocab_size", kModel, &T::vocab_size, "token ids; 0: 256 for text", 0, kInt32Max},
    {"ffn_dim", kModel, &T::ffn_dim, "width of llama's MLP; 0: 8/3 n_embd, up to a multiple of 32",
     0, 1 << 22},
    {"dropout", kModel, &T::dropout,
     "probability of a zero while training; above 0 attention on a GPU is composed, not fused", 0,
     0.999},
    {"bias", kModel, &T::bias, "biases in gpt2's linear layers and norms"},
    {"qkv_bias", kModel, &T::qkv_bias, "biases of llama's queries, keys and values (Qwen2)"},
    {"qk_norm", kModel, &T::qk_norm, "norms of llama's queries and keys (Qwen3)"},
    {"norm_eps", kModel, &T::norm_eps, "added to the variance in norms", 0, 1},
    {"rope_theta", kModel, &T::rope_theta, "base of llama's rotary positions", 1, 1e12},
    {"tie_weights", kModel, &T::tie_weights, "the head shares the token embedding"},

    {"data", kData, &T::data, "text files, or .bin files of token ids; none: Debian's fortunes"},
    {"val_data", kData, &T::val_data, "validation files; none: the end of data"},
    {"val_fraction", kData, &T::val_fraction, "share of data kept for validation", 0, 0.9},
    {"data_dtype", kData, &T::data_dtype, "token ids in .bin files", 0, 0, "uint16|uint32"},

    {"batch_size", kOptimization, &T::batch_size, "rows of a micro-batch", 1, 1 << 24},
    {"gradient_accumulation_steps", kOptimization, &T::gradient_accumulation_steps,
     "micro-batches of an update", 1, 1 << 20},
    {"max_iters", kOptimization, &T::max_iters, "updates", 0, 1e12},
    {"optimizer", kOptimization, &T::optimizer, "update rule", 0, 0, "adamw|lion|sgd"},
    {"learning_rate", kOptimization, &T::learning_rate,
     "peak learning rate; not given: 0.384 / n_embd", 0, 1e6},
    {"min_lr", kOptimization, &T::min_lr,
     "learning rate at the end of the decay; not given: a tenth of the peak", 0, 1e6},
    {"schedule", kOptimization, &T::schedule, "shape of the learning rate", 0, 0,
     "cosine|linear|constant|wsd"},
    {"warmup_iters", kOptimization, &T::warmup_iters,
     "updates of linear warm-up; not given: a tenth of the run, at most 100", 0, 1e12},
    {"lr_decay_iters", kOptimization, &T::lr_decay_iters,
     "update at which the decay ends; 0: max_iters", 0, 1e12},
    {"weight_decay", kOptimization, &T::weight_decay, "of matrices; vectors do not decay", 0, 1e3},
    {"beta1", kOptimization, &T::beta1, "decay of the first moment", 0, 0.999999},
    {"beta2", kOptimization, &T::beta2, "decay of the second moment", 0, 0.999999},
    {"momentum", kOptimization, &T::momentum, "of sgd", 0, 0.999999},
    {"grad_clip", kOptimization, &T::grad_clip, "largest global gradient norm; 0: any", 0, 1e9},
    {"seed", kOptimization, &T::seed, "of parameters, batches, dropout and samples", 0, 9e15},
    {"init_from", kOptimization, &T::init_from,
     "safetensors file of starting weights, by our names or Hugging Face's; none: random"},

    {"device", kDevice, &T::device, "auto, cpu, cuda or cuda:N"},
    {"dtype", kDevice, &T::dtype, "of matrix multiplications; auto: f32 on a CPU, bf16 on a GPU", 0,
     0, "auto|float32|f32|bfloat16|bf16|float16|f16"},
    {"keep_f32", kDevice, &T::keep_f32,
     "scopes that stay f32 beside a smaller dtype, as globs: h.*/mlp; "
     "*residual: the residual stream"},
    {"loss_scale", kDevice, &T::loss_scale,
     "of f16: the first factor of the loss, a power of two; halved when a gradient overflows", 1,
     16777216},
    {"loss_scale_interval", kDevice, &T::loss_scale_interval,
     "of f16: applied updates until the loss scale doubles; 0: it stays", 0, 1e9},
    {"threads", kDevice, &T::threads, "CPU threads; 0: one a core", 0, 4096},
    {"fuse", kDevice, &T::fuse,
     "fuse kernels; the bits stay the same without, but for those of own_matmul"},
    {"fast", kDevice, &T::fast, "admit kernels that differ from run to run"},
    {"numerics", kDevice, &T::numerics, "strict: no rewrite within a tolerance", 0, 0,
     "default|strict"},
    {"own_matmul", kDevice, &T::own_matmul,
     "our own matrix products with what follows them, where that is faster than the library's"},
    {"mode", kDevice, &T::mode, "captured graphs, or one launch after another", 0, 0,
     "graph|eager"},
    {"memory", kDevice, &T::memory,
     "most bytes to take on the device, as 24GiB; activations are recomputed until the plan fits; "
     "none: a GPU's own"},
    {"compile_cache", kDevice, &T::compile_cache, "folder of compiled kernels; none: the user's"},

    {"eval_interval", kRun, &T::eval_interval, "updates between evaluations; 0: only at the end", 0,
     1e12},
    {"eval_iters", kRun, &T::eval_iters, "batches of an evaluation", 1, 1e9},
    {"log_interval", kRun, &T::log_interval,
     "updates between lines; 0: every one in a file, some on a terminal", 0, 1e12},
    {"checkpoint_interval", kRun, &T::checkpoint_interval,
     "updates between checkpoints; 0: only at the end and on Ctrl-C", 0, 1e12},
    {"out_dir", kRun, &T::out_dir, "folder of checkpoints and metrics"},
    {"resume", kRun, &T::resume, "go on from the checkpoint in out_dir"},

    {"sample_tokens", kSample, &T::sample_tokens, "tokens of a sample; 0: none", 0, 1e9},
    {"prompt", kSample, &T::prompt, "what a sample starts from"},
    {"temperature", kSample, &T::temperature, "0: always the likeliest token", 0, 1e3},
    {"top_k", kSample, &T::top_k, "draw among the k likeliest; 0: all", 0, kInt32Max},
};

const char* TypeName(const ConfigKey& key) {
  constexpr const char* kNames[] = {"true or false", "an integer", "a number", "a string",
                                    "a list of strings"};
  return kNames[key.field.index()];
}

std::string ValueText(const ConfigValue& value) {
  if (const auto* list = std::get_if<StringList>(&value)) return Join(*list, kListSeparator);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  return FormatDouble(std::get<double>(value));
}

// A bound as people write it: 1, 0.9, 1e+12.
std::string ShortNumber(double v) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, v).ptr;
  return std::string(text, end);
}

[[noreturn]] void Reject(const ConfigKey& key, const ConfigValue& value,
                         const std::string& expected, const std::string& where) {
  Fail(ErrorCode::kInvalidArgument, key.name, ": '", ValueText(value), "' is not ", expected, " (",
       where, ")");
}

const ConfigKey& Find(std::string_view name, const std::string& where) {
  if (const ConfigKey* key = FindConfigKey(name)) return *key;
  std::vector<std::string> known;
  for (const ConfigKey& k : kKeys) known.emplace_back(k.name);
  Fail(ErrorCode::kInvalidArgument, "unknown key '", name, "'", DidYouMean(name, known), " (",
       where, ")");
}

void CheckRange(const ConfigKey& key, double v, const ConfigValue& value,
                const std::string& where) {
  if (v >= key.min && v <= key.max) return;
  Reject(key, value,
         v < key.min   ? StrCat("at least ", ShortNumber(key.min))
         : v > key.max ? StrCat("at most ", ShortNumber(key.max))
                       : "a number",
         where);
}

// Checkpoints keep every text in JSON, which is UTF-8, and lists with kListSeparator between.
void CheckText(const ConfigKey& key, const ConfigValue& value, const std::string& where) {
  StringList texts;
  if (const auto* text = std::get_if<std::string>(&value)) texts = {*text};
  const auto* list = std::get_if<StringList>(&value);
  if (list != nullptr) texts = *list;
  for (const std::string& text : texts) {
    if (!IsUtf8(text)) Reject(key, text, "UTF-8, as a checkpoint keeps it", where);
    if (list == nullptr) continue;
    if (text.empty()) Reject(key, text, "a name: it is empty", where);
    if (text.find(kListSeparator) != std::string::npos) {
      Reject(key, text, "on one line", where);
    }
  }
}

}  // namespace

std::span<const ConfigKey> ConfigKeys() { return kKeys; }

const ConfigKey* FindConfigKey(std::string_view name) {
  for (const ConfigKey& key : kKeys) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

void SetConfig(TrainConfig& config, std::string_view name, const ConfigValue& value,
               const std::string& where) {
  const ConfigKey& key = Find(name, where);
  ConfigValue v = value;
  // An integer is a number, and one string is a list of one.
  if (std::holds_alternative<double TrainConfig::*>(key.field)) {
    if (const auto* integer = std::get_if<int64_t>(&v)) v = static_cast<double>(*integer);
  } else if (std::holds_alternative<StringList TrainConfig::*>(key.field)) {
    if (const auto* text = std::get_if<std::string>(&v)) v = StringList{*text};
  }
  if (v.index() != key.field.index()) Reject(key, value, TypeName(key), where);
  CheckText(key, v, where);
  if (const auto* integer = std::get_if<int64_t>(&v)) {
    CheckRange(key, static_cast<double>(*integer), value, where);
  } else if (const auto* number = std::get_if<double>(&v)) {
    CheckRange(key, *number, value, where);
  } else if (const auto* text = std::get_if<std::string>(&v); text && !key.choices.empty()) {
    const std::vector<std::string> words = Split(key.choices, '|');
    if (std::find(words.begin(), words.end(), *text) == words.end()) {
      Reject(key, value, StrCat("one of ", Join(words, ", "), DidYouMean(*text, words)), where);
    }
  }
  std::visit(
      [&](auto member) {
        using Member = std::decay_t<decltype(config.*member)>;
        config.*member = std::get<Member>(v);
      },
      key.field);
  config.given.insert(std::string(name));
}

std::optional<bool> ParseBool(std::string_view text) {
  for (const char* word : {"true", "True", "1", "on", "yes"}) {
    if (text == word) return true;
  }
  for (const char* word : {"false", "False", "0", "off", "no"}) {
    if (text == word) return false;
  }
  return std::nullopt;
}

std::optional<DType> NamedDType(const TrainConfig& config) {
  const std::string& text = config.dtype;
  const size_t at = text.find("float");  // float16, bfloat16: f16, bf16
  return ParseDType(at == text.npos ? text : text.substr(0, at + 1) + text.substr(at + 5));
}

void SetConfigText(TrainConfig& config, std::string_view name, std::string_view text,
                   const std::string& where) {
  const ConfigKey& key = Find(name, where);
  const std::string owned(text);
  ConfigValue value = owned;
  const char* end = owned.data() + owned.size();
  if (std::holds_alternative<bool TrainConfig::*>(key.field)) {
    if (const auto truth = ParseBool(text)) value = *truth;
  } else if (std::holds_alternative<int64_t TrainConfig::*>(key.field)) {
    int64_t v = 0;
    const auto [at, error] = std::from_chars(owned.data(), end, v);
    if (error == std::errc() && at == end) value = v;
  } else if (std::holds_alternative<double TrainConfig::*>(key.field)) {
    double v = 0;
    const auto [at, error] = std::from_chars(owned.data(), end, v);
    if (error == std::errc() && at == end) value = v;
  } else if (std::holds_alternative<StringList TrainConfig::*>(key.field)) {
    StringList list;
    for (const std::string& part : Split(text, kListSeparator[0])) {
      if (!part.empty()) list.push_back(part);
    }
    value = std::move(list);
  }
  SetConfig(config, name, value, where);
}

std::string ConfigText(const TrainConfig& config, const ConfigKey& key) {
  return std::visit([&](auto member) { return ValueText(config.*member); }, key.field);
}

std::map<std::string, std::string> ConfigText(const TrainConfig& config) {
  std::map<std::string, std::string> texts;
  for (const ConfigKey& key : kKeys) texts[std::string(key.name)] = ConfigText(config, key);
  return texts;
}

void SetConfigWords(TrainConfig& config, std::span<char* const> words) {
  for (const std::string_view word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos) {
      Fail(ErrorCode::kInvalidArgument, "expected key=value, got '", word, "'");
    }
    SetConfigText(config, word.substr(0, equals), word.substr(equals + 1), "the command line");
  }
}

}  // namespace stator
