// Checks of a configuration that involve several keys, and the names that a misspelt word is near.
#include "frontend/driver/config.h"
#include "ir/base/error.h"

#include <algorithm>
#include <charconv>

namespace stator {
namespace {

// Edits (insertion, deletion, substitution, swap of neighbours) from `a` to `b`.
int EditDistance(std::string_view a, std::string_view b) {
  const int n = static_cast<int>(a.size()), m = static_cast<int>(b.size());
  std::vector<std::vector<int>> d(n + 1, std::vector<int>(m + 1));
  for (int i = 0; i <= n; ++i) d[i][0] = i;
  for (int j = 0; j <= m; ++j) d[0][j] = j;
  for (int i = 1; i <= n; ++i) {
    for (int j = 1; j <= m; ++j) {
      d[i][j] =
          std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[n][m];
}

template <typename... Parts>
void Require(bool condition, const Parts&... parts) {
  if (!condition) Fail(ErrorCode::kInvalidArgument, parts...);
}

// Keys that one model alone reads.
constexpr std::pair<std::string_view, std::string_view> kModelOfKey[] = {
    {"n_kv_head", "llama"},  {"ffn_dim", "llama"}, {"qkv_bias", "llama"}, {"qk_norm", "llama"},
    {"rope_theta", "llama"}, {"dropout", "gpt2"},  {"bias", "gpt2"}};

// The model that alone reads `key`, "" where every one does.
std::string_view ModelOfKey(std::string_view key) {
  for (const auto& [name, model] : kModelOfKey) {
    if (name == key) return model;
  }
  return "";
}

}  // namespace

std::string DidYouMean(std::string_view word, const std::vector<std::string>& known) {
  std::vector<std::pair<int, std::string_view>> near;
  for (std::string_view k : known) {
    const int distance = EditDistance(word, k);
    const bool extends = word.size() >= 3 && (k.starts_with(word) || word.starts_with(k));
    if (distance <= std::max<int>(1, static_cast<int>(word.size()) / 3) || extends) {
      near.emplace_back(distance, k);
    }
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string text;
  for (size_t i = 0; i < near.size() && i < 3; ++i) {
    text += StrCat(i == 0 ? ", did you mean '" : " or '", near[i].second, "'");
  }
  return text.empty() ? text : text + "?";
}

std::string NearNames(std::string_view pattern, const std::vector<std::string>& known) {
  const std::string near = DidYouMean(pattern, known);
  if (!near.empty()) return near;
  const std::vector<std::string> some(known.begin(),
                                      known.begin() + std::min<ptrdiff_t>(5, std::ssize(known)));
  return StrCat("; there are ", known.size(), " names, such as ", Join(some, ", "));
}

bool ModelReads(std::string_view model, std::string_view key) {
  const std::string_view only = ModelOfKey(key);
  return only.empty() || only == model;
}

void RequireModelKeys(const TrainConfig& config) {
  const TrainConfig defaults;
  for (const ConfigKey& key : ConfigKeys()) {
    const bool asked = config.given.contains(std::string(key.name)) &&
                       ConfigText(config, key) != ConfigText(defaults, key);
    Require(!asked || ModelReads(config.model, key.name), key.name, ": only ", ModelOfKey(key.name),
            " has it, the model is ", config.model);
  }
}

int64_t MemoryBudget(const TrainConfig& config) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1}, {"B", 1}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  const std::string& text = config.memory;
  if (text.empty()) return 0;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const auto& [name, factor] : kUnits) {
    if (unit == name && error == std::errc() && number * factor >= 1 && number * factor < 0x1p62) {
      return static_cast<int64_t>(number * factor);
    }
  }
  Fail(ErrorCode::kInvalidArgument, "memory: '", text, "' is no size such as 24GiB or 512MiB");
}

void ValidateConfig(const TrainConfig& c) {
  MemoryBudget(c);
  RequireModelKeys(c);
  Require(c.n_embd % c.n_head == 0, "n_head: ", c.n_head, " heads do not divide n_embd ", c.n_embd);
  Require(c.n_kv_head == 0 || c.n_head % c.n_kv_head == 0, "n_kv_head: ", c.n_kv_head,
          " does not divide n_head ", c.n_head);
  Require(c.model != "llama" || c.n_embd / c.n_head % 2 == 0, "n_head: rotary embedding needs an ",
          "even head size, n_embd / n_head is ", c.n_embd / c.n_head);
  Require(c.min_lr <= c.learning_rate, "min_lr: ", c.min_lr, " is above learning_rate ",
          c.learning_rate);
  const int64_t decay_end = std::max<int64_t>(c.lr_decay_iters ? c.lr_decay_iters : c.max_iters, 1);
  Require(c.schedule == "constant" || c.warmup_iters < decay_end, "warmup_iters: ", c.warmup_iters,
          " updates of warm-up do not fit before update ", decay_end,
          ", where the decay ends: lower warmup_iters, or raise max_iters or lr_decay_iters");
  Require(!c.val_data.empty() || c.val_fraction > 0,
          "val_fraction: 0 leaves nothing to validate on; name val_data");
  Require(!c.out_dir.empty(), "out_dir: empty");
}

}  // namespace stator
