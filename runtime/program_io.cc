#include "runtime/program_io.h"

#include "ir/base/error.h"
#include "ir/base/parallel.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

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

constexpr int64_t kSlice = int64_t{1} << 16;  // elements of a thread's turn
constexpr int64_t kChunk = int64_t{1} << 14;  // f32s that are split at once, on the stack

// Calls `work` with the ends of slices of `count` elements, in threads.
void ForSlices(int64_t count, const std::function<void(int64_t begin, int64_t end)>& work) {
  ParallelFor(static_cast<size_t>((count + kSlice - 1) / kSlice), [&](size_t slice) {
    const int64_t begin = static_cast<int64_t>(slice) * kSlice;
    work(begin, std::min(count, begin + kSlice));
  });
}

// f32s [first, first + count) of `source`, in halves.
void MakeHalves(const StateSource& source, int64_t first, int64_t count, char* high, char* low) {
  std::array<float, kChunk> values;
  source(4 * first,
         std::span(reinterpret_cast<char*>(values.data()), static_cast<size_t>(4 * count)));
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t halves[2] = {HighHalf(values[i]), LowHalf(values[i])};
    std::memcpy(high + 2 * i, &halves[0], 2);
    std::memcpy(low + 2 * i, &halves[1], 2);
  }
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

StateSource SourceOf(Bytes bytes) {
  return [bytes](int64_t offset, std::span<char> out) {
    std::memcpy(out.data(), bytes.data() + offset, out.size());
  };
}

void MakeElements(const StateEntry& state, const StateSource& source, int64_t first, int64_t count,
                  char* to, char* low) {
  const int64_t width = ByteWidth(state.type.dtype);
  ForSlices(count, [&](int64_t begin, int64_t end) {
    if (state.halves) {
      for (int64_t at = begin; at < end; at += kChunk) {
        MakeHalves(source, first + at, std::min(kChunk, end - at), to + 2 * at, low + 2 * at);
      }
    } else {
      source(width * (first + begin),
             std::span(to + width * begin, static_cast<size_t>(width * (end - begin))));
    }
  });
}

std::vector<char> JoinHalves(const StateEntry& state, Bytes stored) {
  std::vector<char> dense(static_cast<size_t>(state.type.Bytes()));
  const char* const low = stored.data() + state.LowHalves();
  ForSlices(state.type.NumElements(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      uint16_t halves[2];
      std::memcpy(&halves[0], stored.data() + 2 * i, 2);
      std::memcpy(&halves[1], low + 2 * i, 2);
      const float v = JoinHalves(halves[0], halves[1]);
      std::memcpy(dense.data() + 4 * i, &v, 4);
    }
  });
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
