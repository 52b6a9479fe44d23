#include "frontend/driver/sample.h"

#include "frontend/driver/random_bits.h"
#include "frontend/driver/trainer.h"
#include "ir/base/error.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace stator {
namespace {

// Length of the UTF-8 sequence at `i`, 0 when there is none.
size_t Utf8Length(const std::string& s, size_t i) {
  const auto c = static_cast<unsigned char>(s[i]);
  const size_t n = c < 0xC2 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 0;
  if (n == 0 || i + n > s.size()) return 0;
  for (size_t k = 1; k < n; ++k) {
    if ((static_cast<unsigned char>(s[i + k]) & 0xC0) != 0x80) return 0;
  }
  return n;
}

}  // namespace

int32_t DrawToken(std::span<const float> logits, const SampleOptions& options, int64_t position) {
  const auto likelier = [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  const auto bad = [](float x) { return std::isnan(x) || x == INFINITY; };
  if (std::any_of(logits.begin(), logits.end(), bad)) {
    Fail(ErrorCode::kInvalidArgument, "sample: the logits at token ", position, " are not finite");
  }
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  if (options.temperature <= 0) return *std::min_element(ids.begin(), ids.end(), likelier);
  if (options.top_k > 0 && options.top_k < static_cast<int64_t>(ids.size())) {
    std::nth_element(ids.begin(), ids.begin() + options.top_k - 1, ids.end(), likelier);
    ids.resize(options.top_k);
    std::sort(ids.begin(), ids.end());
  }
  double max = -INFINITY;
  for (int32_t id : ids) max = std::max(max, static_cast<double>(logits[id]));
  std::vector<double> weights(ids.size());
  double total = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    total += weights[i] = std::exp((logits[ids[i]] - max) / options.temperature);
  }
  if (!(total > 0) || !std::isfinite(total)) {
    Fail(ErrorCode::kInvalidArgument, "sample: the logits at token ", position, " are not finite");
  }
  // 53 random bits make a double in [0, 1).
  const uint64_t bits =
      RandomBits(options.seed, Purpose::kSampling, static_cast<uint64_t>(position), 0) >> 11;
  const double u = static_cast<double>(bits) * 0x1p-53 * total;
  double sum = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    sum += weights[i];
    if (u < sum) return ids[i];
  }
  return ids.back();
}

void Sample(Executor& executor, std::vector<int32_t> tokens, const SampleOptions& options,
            const std::function<bool(int32_t token)>& on_token) {
  const Program* forward = executor.plan().FindProgram("forward");
  if (!forward) Fail(ErrorCode::kInvalidArgument, "sample: the plan has no program 'forward'");
  if (tokens.empty()) Fail(ErrorCode::kInvalidArgument, "sample: the prompt is empty");
  int64_t block = 0;
  for (const PlanInput& input : forward->inputs) {
    if (input.name == "tokens") block = input.type.dim(-1);
  }
  std::vector<int32_t> window(block);
  for (int64_t i = 0; i < options.tokens; ++i) {
    const int64_t n = std::min<int64_t>(block, static_cast<int64_t>(tokens.size()));
    // Attention is causal: what fills the rest of the window does not matter.
    std::fill(std::copy(tokens.end() - n, tokens.end(), window.begin()), window.end(), 0);
    const std::vector<int32_t> at = {static_cast<int32_t>(n - 1)};
    const OutputMap outputs = executor.Wait(
        executor.Enqueue("forward", {{"tokens", AsBytes(window)}, {"at", AsBytes(at)}}));
    const std::vector<char>& bytes = outputs.at("logits");
    std::vector<float> logits(bytes.size() / sizeof(float));
    std::memcpy(logits.data(), bytes.data(), bytes.size());
    const int32_t token = DrawToken(logits, options, i);
    tokens.push_back(token);
    if (!on_token(token)) return;
  }
}

std::string SampleText(Executor& executor, const TrainConfig& config,
                       const std::function<bool()>& goes_on) {
  std::vector<int32_t> prompt;
  for (char c : config.prompt) prompt.push_back(static_cast<unsigned char>(c));
  std::string text = config.prompt;
  Sample(executor, prompt,
         {.tokens = config.sample_tokens,
          .temperature = config.temperature,
          .top_k = config.top_k,
          .seed = static_cast<uint64_t>(config.seed)},
         [&](int32_t token) {
           text += static_cast<char>(token);
           return !goes_on || goes_on();
         });
  return Printable(text);
}

std::string Printable(const std::string& bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size();) {
    const auto c = static_cast<unsigned char>(bytes[i]);
    const size_t n = c == '\n' || c == '\t' || (c >= 0x20 && c < 0x7F) ? 1 : Utf8Length(bytes, i);
    out += n == 0 ? "?" : bytes.substr(i, n);
    i += std::max<size_t>(n, 1);
  }
  return out;
}

}  // namespace stator
