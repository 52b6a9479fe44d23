#include "runtime/program_io.h"

#include "ir/base/error.h"

#include <cstring>

namespace stator {
namespace {

template <typename Entries>
std::string NamesOf(const Entries& entries) {
  std::vector<std::string> names;
  for (const auto& e : entries) names.push_back(e.name);
  return names.empty() ? "none" : Join(names, ", ");
}

const PlanInput* FindInput(const Program& program, const std::string& name) {
  for (const PlanInput& input : program.inputs) {
    if (input.name == name) return &input;
  }
  return nullptr;
}

Dims PositionOf(int64_t k, const Dims& shape) {
  Dims at(shape.size(), 0);
  for (size_t i = shape.size(); i-- > 0;) {
    at[i] = k % shape[i];
    k /= shape[i];
  }
  return at;
}

template <typename T>
void CheckIds(const PlanInput& input, const char* bytes) {
  const int64_t n = input.type.NumElements();
  for (int64_t k = 0; k < n; ++k) {
    T id;
    std::memcpy(&id, bytes + k * static_cast<int64_t>(sizeof(T)), sizeof(T));
    const int64_t v = static_cast<int64_t>(id);
    if (v >= 0 && v < input.below) continue;
    if (input.has_ignored && v == input.ignored) continue;
    Fail(ErrorCode::kInvalidArgument, "input ", input.name, PositionOf(k, input.type.shape), " is ",
         v, ", which is not in [0, ", input.below, ")",
         input.has_ignored ? StrCat(" and not the ignored value ", input.ignored) : "");
  }
}

void CheckRangeOfIds(const PlanInput& input, const char* bytes) {
  switch (input.type.dtype) {
    case DType::kI64:
      return CheckIds<int64_t>(input, bytes);
    case DType::kI32:
      return CheckIds<int32_t>(input, bytes);
    case DType::kU32:
      return CheckIds<uint32_t>(input, bytes);
    case DType::kU16:
      return CheckIds<uint16_t>(input, bytes);
    case DType::kU8:
      return CheckIds<uint8_t>(input, bytes);
    default:
      return;
  }
}

}  // namespace

const Program& RequireProgram(const Plan& plan, const std::string& name) {
  if (const Program* program = plan.FindProgram(name)) return *program;
  Fail(ErrorCode::kInvalidArgument, "plan ", plan.name, " has no program ", name, "; it has ",
       NamesOf(plan.programs));
}

const StateEntry& RequireState(const Plan& plan, const std::string& name) {
  if (const StateEntry* state = plan.FindState(name)) return *state;
  Fail(ErrorCode::kInvalidArgument, "plan ", plan.name, " has no state ", name);
}

void CheckInputs(const Program& program, const std::map<std::string, Bytes>& inputs) {
  for (const auto& [name, bytes] : inputs) {
    if (FindInput(program, name) != nullptr) continue;
    Fail(ErrorCode::kInvalidArgument, "program ", program.name, " has no input ", name,
         "; it takes ", NamesOf(program.inputs));
  }
  for (const PlanInput& input : program.inputs) {
    const auto given = inputs.find(input.name);
    if (given == inputs.end()) {
      Fail(ErrorCode::kInvalidArgument, "program ", program.name, ": input ", input.name,
           " is missing");
    }
    if (static_cast<int64_t>(given->second.size()) != input.type.Bytes()) {
      Fail(ErrorCode::kInvalidArgument, "program ", program.name, ": input ", input.name, " has ",
           given->second.size(), " bytes, ", input.type.ToString(), " takes ", input.type.Bytes());
    }
    if (input.below > 0) CheckRangeOfIds(input, given->second.data());
  }
}

void CheckStateSize(const StateEntry& state, size_t size) {
  if (static_cast<int64_t>(size) == state.type.Bytes()) return;
  Fail(ErrorCode::kInvalidArgument, "state ", state.name, ": ", size, " bytes given, ",
       state.type.ToString(), " takes ", state.type.Bytes());
}

std::vector<char> SplitHalves(const StateEntry& state, Bytes dense) {
  std::vector<char> stored(static_cast<size_t>(state.StoredBytes()));
  char* const low = stored.data() + state.LowHalves();
  for (int64_t i = 0; i < state.type.NumElements(); ++i) {
    float v;
    std::memcpy(&v, dense.data() + 4 * i, 4);
    const uint16_t halves[] = {HighHalf(v), LowHalf(v)};
    std::memcpy(stored.data() + 2 * i, &halves[0], 2);
    std::memcpy(low + 2 * i, &halves[1], 2);
  }
  return stored;
}

std::vector<char> JoinHalves(const StateEntry& state, Bytes stored) {
  std::vector<char> dense(static_cast<size_t>(state.type.Bytes()));
  const char* const low = stored.data() + state.LowHalves();
  for (int64_t i = 0; i < state.type.NumElements(); ++i) {
    uint16_t halves[2];
    std::memcpy(&halves[0], stored.data() + 2 * i, 2);
    std::memcpy(&halves[1], low + 2 * i, 2);
    const float v = JoinHalves(halves[0], halves[1]);
    std::memcpy(dense.data() + 4 * i, &v, 4);
  }
  return dense;
}

void CheckRange(const Plan& plan, BufferRef buffer, int64_t bytes) {
  int64_t size = 0;
  if (buffer.space == Space::kState) size = plan.state_bytes;
  if (buffer.space == Space::kArena) size = plan.arena_bytes;
  if (buffer.space == Space::kIo) size = plan.io_bytes;
  if (bytes >= 0 && buffer.offset >= 0 && buffer.offset <= size && bytes <= size - buffer.offset)
    return;
  Fail(ErrorCode::kInvalidArgument, "no buffer of ", bytes, " bytes at ", buffer.offset,
       " in a space of ", size);
}

}  // namespace stator
