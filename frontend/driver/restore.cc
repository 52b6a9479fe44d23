// Filling a plan's states: from a checkpoint, or from initializers.
#include "frontend/driver/checkpoint.h"
#include "frontend/driver/checksum.h"
#include "frontend/driver/safetensors.h"
#include "frontend/dsl/initializer.h"
#include "ir/base/error.h"
#include "ir/training.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <string>

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

// Fills state `s` from its tensor. `expected`: the checksum of what was saved, "" when unknown.
void FillFrom(const SafetensorsFile& file, const StateEntry& s, const std::string& expected,
              Executor& executor) {
  const TensorInfo& tensor = Lookup(file, s);
  Checksum sum;
  executor.FillState(s.name, [&](int64_t offset, std::span<char> out) {
    file.Read(tensor, offset, out);
    if (!expected.empty()) sum.Add(offset, out);
  });
  const std::string got = ChecksumText(sum.value());
  if (expected.empty() || got == expected) return;
  Fail(ErrorCode::kParse, file.path(), ": '", s.name, "' is damaged: its CRC-32 is ", got, ", ",
       expected, " when it was saved");
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

// The elements of a state of type `type`, from `draws`, which outlive it.
StateSource Drawn(const Type& type, const dsl::Draws& draws) {
  if (type.dtype == DType::kF32) {
    return [&draws](int64_t offset, std::span<char> out) {
      draws.Fill(offset / 4, std::span(reinterpret_cast<float*>(out.data()), out.size() / 4));
    };
  }
  return [&draws, dtype = type.dtype](int64_t offset, std::span<char> out) {
    const size_t width = ByteWidth(dtype), count = out.size() / width;
    std::array<float, 1024> values;
    for (size_t first = 0; first < count; first += values.size()) {
      const size_t n = std::min(values.size(), count - first);
      draws.Fill(offset / static_cast<int64_t>(width) + static_cast<int64_t>(first),
                 std::span(values.data(), n));
      for (size_t i = 0; i < n; ++i) Store(dtype, values[i], &out[(first + i) * width]);
    }
  };
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
  const std::map<std::string, std::string> checksums = ReadCheckpointInfo(directory).checksums;
  if (everything) CheckNothingLeft(plan, rest);
  for (const StateEntry& s : plan.states) {
    if (!wanted(s)) continue;
    const auto sum = checksums.find(s.name);
    FillFrom(file_of(s), s, sum == checksums.end() ? "" : sum->second, executor);
  }
  RebuildDerivedStates(executor);
}

void InitializeStates(Executor& executor, uint64_t seed) {
  for (const StateEntry& s : executor.plan().states) {
    // An executor starts with every state zero.
    if (s.derived || s.init.empty() || s.init == "zeros") continue;
    const dsl::Draws draws(s.init, s.type, seed, s.name);
    executor.FillState(s.name, Drawn(s.type, draws));
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
