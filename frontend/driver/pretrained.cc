#include "frontend/driver/pretrained.h"

#include "frontend/driver/checkpoint.h"
#include "frontend/driver/safetensors.h"
#include "ir/base/error.h"
#include "ir/base/str.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

namespace stator {
namespace {

// By its own name, with or without what Hugging Face puts before the first dot; `ours`: the
// parameter that it is for.
const TensorInfo& Find(const SafetensorsFile& file, const std::string& name,
                       const std::string& ours) {
  const TensorInfo* tensor = file.Find(name);
  const size_t dot = name.find('.');
  if (!tensor && dot != std::string::npos) tensor = file.Find(name.substr(dot + 1));
  if (!tensor)
    Fail(ErrorCode::kInvalidArgument, file.path(), " has neither '", ours, "' nor '", name, "'");
  return *tensor;
}

std::vector<float> ReadFloats(const SafetensorsFile& file, const TensorInfo& tensor) {
  const std::vector<char> bytes = file.Read(tensor);
  std::vector<float> values(tensor.type.NumElements());
  const DType dtype = tensor.type.dtype;
  if (dtype == DType::kF32) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
  } else if (dtype == DType::kF16 || dtype == DType::kBF16) {
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t bits = 0;
      std::memcpy(&bits, &bytes[2 * i], 2);
      values[i] = BitsToFloat16(dtype, bits);
    }
  } else {
    Fail(ErrorCode::kUnsupported, file.path(), ": '", Escaped(tensor.name), "' is ", Name(dtype),
         "; weights are f32, f16 or bf16");
  }
  return values;
}

// The parts of a parameter, one below the other.
struct Parts {
  std::vector<const TensorInfo*> tensors;
  bool transpose = false;
};

using Found = std::vector<std::pair<const StateEntry*, Parts>>;

// Every part is held to its own shape: q and k of swapped sizes sum to the same rows.
void CheckShapes(const SafetensorsFile& file, const StateEntry& state, const Parts& parts,
                 const std::vector<int64_t>& rows) {
  const size_t n = parts.tensors.size();
  STATOR_CHECK(
      n == 1 || (rows.size() == n &&
                 std::accumulate(rows.begin(), rows.end(), int64_t{0}) == state.type.shape.at(0)),
      state.name);
  for (size_t i = 0; i < n; ++i) {
    const TensorInfo& tensor = *parts.tensors[i];
    Dims expected = state.type.shape;
    if (n > 1) expected[0] = rows[i];
    if (parts.transpose) std::swap(expected.at(0), expected.at(1));
    if (tensor.type.shape == expected) continue;
    Fail(ErrorCode::kInvalidArgument, file.path(), ": '", Escaped(tensor.name), "' is ",
         tensor.type.shape, ", '", state.name, "' of ", state.type.shape, " needs ", expected);
  }
}

Parts Locate(const SafetensorsFile& file, const StateEntry& state,
             const std::vector<dsl::WeightSource>& sources) {
  Parts parts;
  std::vector<int64_t> rows;
  if (const TensorInfo* tensor = file.Find(state.name)) {
    parts.tensors = {tensor};
  } else {
    for (const dsl::WeightSource& source : sources) {
      if (source.parameter != state.name) continue;
      for (const std::string& name : source.tensors)
        parts.tensors.push_back(&Find(file, name, state.name));
      parts.transpose = source.transpose;
      rows = source.rows;
    }
  }
  if (parts.tensors.empty()) {
    Fail(ErrorCode::kInvalidArgument, file.path(), " has no '", state.name, "'");
  }
  CheckShapes(file, state, parts, rows);
  return parts;
}

// What Hugging Face's models keep in their files beside weights: masks, frequencies, positions.
constexpr std::string_view kBuffers[] = {"*.attn.bias", "*.attn.masked_bias", "*rotary_emb.*",
                                         "*position_ids"};

// Options with which a model reads a tensor.
constexpr std::pair<std::string_view, std::string_view> kAdvice[] = {
    {"lm_head.weight", "--tie_weights=false (the head is not the embedding)"},
    {"lm_head/w", "--tie_weights=false"},
    {"*.q_proj.bias", "--qkv_bias"},
    {"*.k_proj.bias", "--qkv_bias"},
    {"*.v_proj.bias", "--qkv_bias"},
    {"*.q_norm.weight", "--qk_norm"},
    {"*.k_norm.weight", "--qk_norm"},
    {"*/?_norm/w", "--qk_norm"},
    {"*.c_*.bias", "--bias"},
    {"*ln_?.bias", "--bias"},
    {"*/b", "--bias (gpt2) or --qkv_bias (llama)"},
};

// 3 of "transformer.h.3.ln_1.bias", "model.layers.3.mlp.up_proj.weight" and "h.3/mlp/up/w"; -1
// where there is none.
int64_t LayerOf(const std::string& name) {
  const std::vector<std::string> words = Split(name, '.');
  int layer = -1;
  for (size_t i = 0; i + 1 < words.size() && layer < 0; ++i) {
    if (words[i] != "h" && words[i] != "layers") continue;
    const std::string& next = words[i + 1];
    std::from_chars(next.data(), next.data() + next.size(), layer);
  }
  return layer;
}

// Files of tied models may hold the embedding once more, as the head.
bool IsTiedHead(const SafetensorsFile& file, const TensorInfo& tensor, const Found& found) {
  if (tensor.name != "lm_head.weight") return false;
  for (const auto& [state, parts] : found) {
    if (state->name != "wte/w" && state->name != "embed/w") continue;
    const TensorInfo& embedding = *parts.tensors[0];
    return tensor.type == embedding.type && file.Read(tensor) == file.Read(embedding);
  }
  return false;
}

std::vector<const TensorInfo*> Unread(const SafetensorsFile& file, const Found& found) {
  std::set<const TensorInfo*> read;
  for (const auto& [state, parts] : found) read.insert(parts.tensors.begin(), parts.tensors.end());
  std::vector<const TensorInfo*> unread;
  for (const TensorInfo& t : file.tensors()) {
    const bool buffer = std::any_of(std::begin(kBuffers), std::end(kBuffers),
                                    [&](std::string_view b) { return GlobMatch(b, t.name); });
    if (!buffer && !read.contains(&t) && !IsTiedHead(file, t, found)) unread.push_back(&t);
  }
  return unread;
}

// A weight that is left out makes another model than the file's, without a sign of it.
void CheckAllRead(const SafetensorsFile& file, const Found& found) {
  const std::vector<const TensorInfo*> unread = Unread(file, found);
  if (unread.empty()) return;
  int64_t layers = 0, layers_of_file = 0;
  for (const auto& [state, parts] : found) layers = std::max(layers, LayerOf(state->name) + 1);
  std::vector<std::string> names;
  std::set<std::string> advice;
  for (const TensorInfo* t : unread) {
    if (names.size() < 3) names.push_back(StrCat('\'', Escaped(t->name), '\''));
    const int64_t layer = LayerOf(t->name);
    layers_of_file = std::max(layers_of_file, layer + 1);
    if (layer >= layers) continue;
    for (const auto& [pattern, option] : kAdvice) {
      if (GlobMatch(pattern, t->name)) advice.emplace(option);
    }
  }
  if (layers_of_file > layers) advice.insert(StrCat("--n_layer=", layers_of_file));
  if (unread.size() > names.size()) names.push_back("...");
  Fail(ErrorCode::kInvalidArgument, file.path(), ": the model does not read ", unread.size(),
       " of its tensors: ", Join(names, ", "), advice.empty() ? "" : "; try ",
       Join({advice.begin(), advice.end()}, ", "));
}

std::vector<float> Assemble(const SafetensorsFile& file, const Parts& parts) {
  std::vector<float> values;
  for (const TensorInfo* t : parts.tensors) {
    std::vector<float> part = ReadFloats(file, *t);
    if (parts.transpose) {
      const int64_t rows = t->type.shape[0], columns = t->type.shape[1];
      std::vector<float> turned(part.size());
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) turned[c * rows + r] = part[r * columns + c];
      }
      part = std::move(turned);
    }
    values.insert(values.end(), part.begin(), part.end());
  }
  return values;
}

}  // namespace

void LoadPretrained(Executor& executor, const std::string& path,
                    const std::vector<dsl::WeightSource>& sources) {
  const SafetensorsFile file(path);
  Found found;
  for (const StateEntry& s : executor.plan().states) {
    if (s.role == "parameter") found.emplace_back(&s, Locate(file, s, sources));
  }
  CheckAllRead(file, found);
  for (const auto& [state, parts] : found) {
    const std::vector<float> values = Assemble(file, parts);
    if (state->type.dtype != DType::kF32) {
      Fail(ErrorCode::kUnsupported, "'", state->name, "' is ", Name(state->type.dtype),
           "; only f32 parameters can be loaded");
    }
    executor.WriteState(state->name,
                        Bytes(reinterpret_cast<const char*>(values.data()), values.size() * 4));
  }
  RebuildDerivedStates(executor);
}

}  // namespace stator
