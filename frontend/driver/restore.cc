// Filling a plan's states: from a checkpoint, or from initializers.
#include <cstring>
#include <functional>

#include "frontend/driver/checkpoint.h"
#include "frontend/driver/safetensors.h"
#include "frontend/dsl/initializer.h"
#include "ir/base/error.h"
#include "ir/training.h"

namespace stator {
namespace {

const TensorInfo& Lookup(const SafetensorsFile& file, const StateEntry& state) {
  const TensorInfo* tensor = file.Find(state.name);
  if (!tensor) {
    Fail(ErrorCode::kInvalidArgument, file.path(), " has no '", state.name, "', which this model needs");
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
      Fail(ErrorCode::kInvalidArgument, file.path(), " holds '", t.name, "', which this model has not");
    }
  }
}

std::vector<char> RoundTo(DType dtype, const std::vector<float>& values) {
  std::vector<char> bytes(values.size() * ByteWidth(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    char* out = bytes.data() + i * ByteWidth(dtype);
    switch (dtype) {
      case DType::kF64: {
        const double v = values[i];
        std::memcpy(out, &v, sizeof v);
        break;
      }
      case DType::kF32:
        std::memcpy(out, &values[i], sizeof(float));
        break;
      case DType::kBF16:
      case DType::kF16: {
        const uint16_t bits = FloatToBits16(dtype, values[i]);
        std::memcpy(out, &bits, sizeof bits);
        break;
      }
      default:
        Fail(ErrorCode::kUnsupported, "no initializer makes ", Name(dtype));
    }
  }
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
    if (s.derived || s.init.empty()) continue;
    executor.WriteState(s.name, RoundTo(s.type.dtype, dsl::Initialize(s.init, s.type, seed, s.name)));
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
    STATOR_CHECK(!s.derived, "state ", s.name, " is derived, but the plan has no program to derive it");
  }
}

}  // namespace stator
