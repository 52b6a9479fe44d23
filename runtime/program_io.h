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

// Of `bytes`, which outlive it.
StateSource SourceOf(Bytes bytes);
// Makes elements [first, first + count) of `state`, in threads: at `to` as memory is to have them,
// or of a state that is kept in halves the high halves at `to` and the low ones at `low`.
void MakeElements(const StateEntry& state, const StateSource& source, int64_t first, int64_t count,
                  char* to, char* low);
// The dense f32s of what memory has.
std::vector<char> JoinHalves(const StateEntry& state, Bytes stored);

// Throws `Error` unless [offset, offset + bytes) lies in the buffer's space.
void CheckRange(const Plan& plan, BufferRef buffer, int64_t bytes);

}  // namespace stator
