// Small string helpers; cheap to include everywhere.
#pragma once

#include "ir/base/symbol.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace stator {

// Shortest decimal text that reads back as `v`; always has a '.', an exponent, or is inf/nan.
std::string FormatDouble(double v);
// "[a,b,c]".
std::string FormatDims(const std::vector<int64_t>& dims);

namespace internal {
inline void AppendPart(std::string& out, std::string_view s) { out.append(s); }
inline void AppendPart(std::string& out, const char* s) { out.append(s); }
inline void AppendPart(std::string& out, const std::string& s) { out.append(s); }
inline void AppendPart(std::string& out, const Symbol& s) { out.append(s.str()); }
inline void AppendPart(std::string& out, char c) { out.push_back(c); }
inline void AppendPart(std::string& out, bool b) { out.append(b ? "true" : "false"); }
inline void AppendPart(std::string& out, double v) { out.append(FormatDouble(v)); }
inline void AppendPart(std::string& out, const std::vector<int64_t>& d) { out += FormatDims(d); }
template <typename T>
requires(std::is_integral_v<T>) void AppendPart(std::string& out, T v) {
  out.append(std::to_string(v));
}
}  // namespace internal

template <typename... Parts>
std::string StrCat(const Parts&... parts) {
  std::string out;
  (internal::AppendPart(out, parts), ...);
  return out;
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator);
std::vector<std::string> Split(std::string_view text, char separator);
std::string_view Trim(std::string_view text);
// Control characters as \n or \x1b: a name out of a file stays on its line of a message.
std::string Escaped(std::string_view text);
// Shell-style match of a whole string: `*` any run, `?` one character.
bool GlobMatch(std::string_view pattern, std::string_view text);

// 64-bit hash (FNV-1a with a finalizer), stable across machines and runs.
uint64_t HashBytes(std::string_view bytes, uint64_t seed = 0);
std::string Hex64(uint64_t v);

}  // namespace stator
