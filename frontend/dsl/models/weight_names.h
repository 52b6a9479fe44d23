// Where a parameter's values are in a Hugging Face checkpoint of the same model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stator::dsl {

struct WeightSource {
  std::string parameter;             // "h.0/attn/qkv/w"
  std::vector<std::string> tensors;  // concatenated along axis 0, after transposing
  bool transpose = false;            // stored as [in, out]: GPT-2's Conv1D
  std::vector<int64_t> rows = {};    // of each tensor along axis 0, where there are several
};

}  // namespace stator::dsl
