// Filling a plan's states: from a checkpoint, or from initializers.
#include "frontend/driver/checkpoint.h"
#include "frontend/driver/safetensors.h"
#include "frontend/dsl/initializer.h"
#include "ir/base/error.h"
#include "ir/training.h"

#include <cstring>
#include <functional>

namespace stator {
namespace {

const TensorInfo& Lookup(const SafetensorsFile& file, const StateEntry& state) {
  const TensorInfo* tensor = file.Find(state.name);
  if (!tensor) {
    Fail(ErrorCode::kInvalidArgument, file.path(), " has no '", state.name,
         "', which this model needs");
  }
  if (tensor->type != state.type) {
    Fail(ErrorCode::kInvalidArgument, "'", state.name, "' is ", tensor->type.ToString(), " in ",
         file.path(), " and ", state.type.ToString(), " in this model");
  }
  return *tensor;
}

void CheckNothingLeft(const Plan& plan, const SafetensorsFile& file) {
  for (const TensorInfo& t : file.tensors()) {
    const StateEntry* state = plan.FindState(t.name);
    if (!state || !IsCheckpointed(*state)) {
      Fail(ErrorCode::kInvalidArgument, file.path(), " holds '", t.name,
           "', which this model has not");
    }
  }
}

// The value in `dtype`, as the bytes of one element.
void Store(DType dtype, float v, char* out) {
  const auto put = [out](auto element) { std::memcpy(out, &element, sizeof element); };
  switch (dtype) {
    case DType::kF64:
      return put(static_cast<double>(v));
    case DType::kF32:
      return put(v);
    case DType::kBF16:
    case DType::kF16:
      return put(FloatToBits16(dtype, v));
    case DType::kI64:
      return put(static_cast<int64_t>(v));
    case DType::kI32:
      return put(static_cast<int32_t>(v));
    case DType::kU32:
      return put(static_cast<uint32_t>(v));
    default:
      Fail(ErrorCode::kUnsupported, "no initializer makes ", Name(dtype));
  }
}

std::vector<char> RoundTo(DType dtype, const std::vector<float>& values) {
  const size_t width = ByteWidth(dtype);
  std::vector<char> bytes(values.size() * width);
  for (size_t i = 0; i < values.size(); ++i) Store(dtype, values[i], &bytes[i * width]);
  return bytes;
}

}  // namespace

void RestoreCheckpoint(Executor& executor, const std::string& directory, Restore what) {
  const Plan& plan = executor.plan();
  const SafetensorsFile model(directory + "/model.safetensors");
  const SafetensorsFile rest(directory + "/state.safetensors");
  const bool everything = what == Restore::kEverything;
  const auto wanted = [&](const StateEntry& s) {
    return IsCheckpointed(s) && (everything || s.role == "parameter");
  };
  const auto file_of = [&](const StateEntry& s) -> const SafetensorsFile& {
    return s.role == "parameter" ? model : rest;
  };
  for (const StateEntry& s : plan.states) {
    if (wanted(s)) Lookup(file_of(s), s);
  }
  CheckNothingLeft(plan, model);
  if (everything) CheckNothingLeft(plan, rest);
  for (const StateEntry& s : plan.states) {
    if (wanted(s)) executor.WriteState(s.name, file_of(s).Read(Lookup(file_of(s), s)));
  }
  RebuildDerivedStates(executor);
}

void InitializeStates(Executor& executor, uint64_t seed) {
  for (const StateEntry& s : executor.plan().states) {
    // An executor starts with every state zero.
    if (s.derived || s.init.empty() || s.init == "zeros") continue;
    const std::vector<float> values = dsl::Initialize(s.init, s.type, seed, s.name);
    if (s.type.dtype == DType::kF32) {
      executor.WriteState(s.name, Bytes(reinterpret_cast<const char*>(values.data()),
                                        values.size() * sizeof(float)));
    } else {
      executor.WriteState(s.name, RoundTo(s.type.dtype, values));
    }
  }
  const StateEntry* key = executor.plan().FindState(training::kSeed);
  if (key) {
    const uint32_t words[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
    executor.WriteState(key->name, Bytes(reinterpret_cast<const char*>(words), sizeof words));
  }
  RebuildDerivedStates(executor);
}

void RebuildDerivedStates(Executor& executor) {
  const Plan& plan = executor.plan();
  if (plan.FindProgram("derive")) {
    executor.Wait(executor.Enqueue("derive", {}));
    return;
  }
  for (const StateEntry& s : plan.states) {
    STATOR_CHECK(!s.derived, "state ", s.name,
                 " is derived, but the plan has no program to derive it");
  }
}

}  // namespace stator
