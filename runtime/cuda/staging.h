// Inputs and outputs on their way: a program's buffers packed into as few copies as their places
// allow.
#pragma once

#include "codegen/plan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace stator {

// Neighbouring buffers of one space that one copy moves.
struct CopyRange {
  BufferRef device;
  int64_t staged = 0;  // offset in the packed block
  int64_t bytes = 0;
};

struct PackedBuffer {
  std::string name;
  int64_t staged = 0;
  int64_t bytes = 0;
};

// Where each input (or output) of a program lies in a packed block.
struct Packing {
  std::vector<PackedBuffer> buffers;  // in the program's order
  std::vector<CopyRange> ranges;
  int64_t bytes = 0;
};

struct NamedBuffer {
  std::string name;
  BufferRef buffer;
  int64_t bytes = 0;
};
Packing PackBuffers(const std::vector<NamedBuffer>& buffers);

}  // namespace stator
