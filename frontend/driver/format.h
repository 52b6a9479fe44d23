// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace stator {

// "12.3 MiB"; "2,576,674".
std::string FormatBytes(double bytes);
std::string FormatCount(int64_t n);
// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string Format(const char* format, ...);

}  // namespace stator
