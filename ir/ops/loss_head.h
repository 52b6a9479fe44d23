// The chunk of a loss head: how many tokens' logits exist at a time.
#pragma once

#include <cstdint>

namespace stator {

// Tokens a chunk for `tokens` rows of `classes` logits, by these alone; `tokens` where one chunk is
// enough. A chunk has at most 2^29 logits (1 GiB in bf16), but 2048 tokens at least: with fewer,
// reading the weight and adding up its gradient [classes, C] in f32 keep the products waiting.
int64_t LossHeadChunk(int64_t tokens, int64_t classes);

}  // namespace stator
