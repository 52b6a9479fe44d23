#include "frontend/driver/format.h"

#include <cstdarg>
#include <cstdio>

namespace stator {

std::string Format(const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return text;
}

std::string FormatBytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? Format("%.0f B", bytes) : Format("%.1f %s", bytes, kUnits[unit]);
}

std::string FormatCount(int64_t n) {
  std::string text = std::to_string(n);
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > (n < 0 ? 1 : 0); at -= 3) {
    text.insert(static_cast<size_t>(at), 1, ',');
  }
  return text;
}

}  // namespace stator
