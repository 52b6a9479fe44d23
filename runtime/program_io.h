// What every executor checks before it touches a device: names, sizes and ids.
#pragma once

#include "codegen/plan.h"
#include "runtime/executor.h"

#include <map>
#include <string>
#include <vector>

namespace stator {

// Throw `Error` listing what there is.
const Program& RequireProgram(const Plan& plan, const std::string& name);
const StateEntry& RequireState(const Plan& plan, const std::string& name);

// Throws `Error` naming the input, and for an id out of range its position and value.
void CheckInputs(const Program& program, const std::map<std::string, Bytes>& inputs);

// Throws `Error` unless `size` is that of `state`.
void CheckStateSize(const StateEntry& state, size_t size);

// Dense f32s and what memory has of them, for a state that is kept in halves.
std::vector<char> SplitHalves(const StateEntry& state, Bytes dense);
std::vector<char> JoinHalves(const StateEntry& state, Bytes stored);

// Throws `Error` unless [offset, offset + bytes) lies in the buffer's space.
void CheckRange(const Plan& plan, BufferRef buffer, int64_t bytes);

}  // namespace stator
