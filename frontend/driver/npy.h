// Tensors as NumPy's .npy files (format version 1.0, numpy.lib.format).
#pragma once

#include "ir/type.h"

#include <span>
#include <string>

namespace stator {

// Writes dense row-major `bytes` of `type`. NumPy has no bf16 and no f8: those are widened to f32,
// which holds each of their values. Throws `Error` (kIo).
void WriteNpy(const std::string& path, const Type& type, std::span<const char> bytes);

}  // namespace stator
