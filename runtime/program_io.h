// What every executor checks before it touches a device: names, sizes and ids.
#pragma once

#include "codegen/plan.h"
#include "runtime/executor.h"

#include <functional>
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

// Of a state that is kept in halves: gives `write` what memory is to have of the dense f32s, with
// offsets in the state, a few MiB at a time.
void WriteHalves(const StateEntry& state, Bytes dense,
                 const std::function<void(int64_t offset, Bytes bytes)>& write);
// The dense f32s of what memory has.
std::vector<char> JoinHalves(const StateEntry& state, Bytes stored);

// Throws `Error` unless [offset, offset + bytes) lies in the buffer's space.
void CheckRange(const Plan& plan, BufferRef buffer, int64_t bytes);

}  // namespace stator
