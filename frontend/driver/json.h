// JSON for file headers and checkpoints: a small value type, and a strict parser that reads what a
// stranger wrote. The JSON library itself is in json.cc alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace stator {

struct Json {
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;  // in the order of the text

  Json() = default;  // null
  Json(bool v) : value(v) {}
  Json(int64_t v) : value(v) {}
  Json(int v) : value(int64_t{v}) {}
  Json(double v) : value(v) {}
  Json(std::string v) : value(std::move(v)) {}
  Json(const char* v) : value(std::string(v)) {}
  Json(Array v) : value(std::move(v)) {}
  Json(Object v) : value(std::move(v)) {}

  template <typename T>
  const T* As() const {
    return std::get_if<T>(&value);
  }
  const Json* Find(std::string_view key) const;  // null unless an object that has it

  std::variant<std::nullptr_t, bool, int64_t, double, std::string, Array, Object> value;
};

// Throws `Error` (kParse) that starts with `what` for malformed text, a key given twice, a number
// beyond 64 bits, or nesting deeper than `max_depth`.
Json ParseJson(std::string_view text, const std::string& what, int max_depth = 16);

// Whether `text` can be a string in JSON.
bool IsUtf8(std::string_view text);
// On one line when `indent` is 0. Keys keep their order. Strings must be UTF-8.
std::string PrintJson(const Json& json, int indent = 0);

// Members that must be there and of that type: throw `Error` (kParse), starting with `what`.
const std::string& JsonString(const Json& object, std::string_view key, const std::string& what);
int64_t JsonInt(const Json& object, std::string_view key, const std::string& what);
const Json::Object& JsonObject(const Json& object, std::string_view key, const std::string& what);

}  // namespace stator
