// Drawing text from a trained model, token by token.
#pragma once

#include "frontend/driver/config.h"
#include "runtime/executor.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace stator {

struct SampleOptions {
  int64_t tokens = 400;
  double temperature = 0.8;  // logits are divided by it; 0 takes the likeliest token
  int64_t top_k = 0;         // draw among the k likeliest; 0: all
  uint64_t seed = 0;
};

// The token drawn from softmax(logits / temperature) with the random number of (seed, position):
// the same logits give the same token. Ties go to the smaller id.
int32_t DrawToken(std::span<const float> logits, const SampleOptions& options, int64_t position);

// Runs the program "forward" (ForwardModel in models.h) once a token, over the last T tokens, and
// hands each drawn token to `on_token` until that returns false. Throws `Error` for an empty
// prompt.
void Sample(Executor& executor, std::vector<int32_t> prompt, const SampleOptions& options,
            const std::function<bool(int32_t token)>& on_token);

// The prompt and what follows it, for a model of bytes, as `config` asks. Ends early when `goes_on`
// says so.
std::string SampleText(Executor& executor, const TrainConfig& config,
                       const std::function<bool()>& goes_on = {});

// Bytes for a terminal: what is neither printable ASCII, UTF-8, a tab nor a newline becomes '?'.
std::string Printable(const std::string& bytes);

}  // namespace stator
