#include "frontend/driver/pretrained.h"

#include "frontend/driver/checkpoint.h"
#include "frontend/driver/safetensors.h"
#include "ir/base/error.h"

#include <cstring>
#include <utility>

namespace stator {
namespace {

const TensorInfo& Find(const SafetensorsFile& file, const std::string& name) {
  const TensorInfo* tensor = file.Find(name);
  const size_t dot = name.find('.');
  if (!tensor && dot != std::string::npos) tensor = file.Find(name.substr(dot + 1));
  if (!tensor) Fail(ErrorCode::kInvalidArgument, file.path(), " has no '", name, "'");
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
    Fail(ErrorCode::kUnsupported, file.path(), ": '", tensor.name, "' is ", Name(dtype),
         "; weights are f32, f16 or bf16");
  }
  return values;
}

// The parts of a parameter, one below the other.
struct Parts {
  std::vector<const TensorInfo*> tensors;
  bool transpose = false;
};

Parts Locate(const SafetensorsFile& file, const StateEntry& state,
             const std::vector<dsl::WeightSource>& sources) {
  Parts parts;
  if (const TensorInfo* tensor = file.Find(state.name)) {
    parts.tensors = {tensor};
  } else {
    for (const dsl::WeightSource& source : sources) {
      if (source.parameter != state.name) continue;
      for (const std::string& name : source.tensors) parts.tensors.push_back(&Find(file, name));
      parts.transpose = source.transpose;
    }
  }
  if (parts.tensors.empty()) {
    Fail(ErrorCode::kInvalidArgument, file.path(), " has no '", state.name, "'");
  }
  Dims shape;
  for (const TensorInfo* t : parts.tensors) {
    Dims part = t->type.shape;
    if (parts.transpose && part.size() == 2) std::swap(part[0], part[1]);
    if (shape.empty()) {
      shape = part;
    } else if (!part.empty()) {
      shape[0] += part[0];
    }
  }
  if (shape != state.type.shape) {
    Fail(ErrorCode::kInvalidArgument, "'", state.name, "' is ", state.type.ToString(), ", '",
         parts.tensors[0]->name, "' in ", file.path(), " makes it ", FormatDims(shape));
  }
  return parts;
}

std::vector<float> Assemble(const SafetensorsFile& file, const Parts& parts) {
  std::vector<float> values;
  for (const TensorInfo* t : parts.tensors) {
    std::vector<float> part = ReadFloats(file, *t);
    if (parts.transpose && t->type.rank() == 2) {
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
  std::vector<std::pair<const StateEntry*, Parts>> found;
  for (const StateEntry& s : executor.plan().states) {
    if (s.role == "parameter") found.emplace_back(&s, Locate(file, s, sources));
  }
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
