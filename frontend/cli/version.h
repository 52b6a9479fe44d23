// What `stator --version` prints.
#pragma once

#include <string>

namespace stator {

std::string VersionText();  // "stator 0.1.0 (CPU and CUDA)"

}  // namespace stator
