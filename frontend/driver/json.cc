#include "frontend/driver/json.h"

#include "ir/base/error.h"

#include <nlohmann/json.hpp>

#include <limits>
#include <set>

namespace stator {
namespace {

// Builds the value from parser events, so that no event is lost: a document model would keep the
// last of two equal keys in silence.
class Reader {
 public:
  Reader(const std::string& what, int max_depth) : what_(what), max_depth_(max_depth) {}
  Json Take() { return std::move(root_); }

  bool null() { return Add(Json()); }
  bool boolean(bool v) { return Add(v); }
  bool number_integer(int64_t v) { return Add(v); }
  bool number_unsigned(uint64_t v) {
    if (v > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      Fail(ErrorCode::kParse, what_, ": the number ", v, " is beyond 64 bits");
    }
    return Add(static_cast<int64_t>(v));
  }
  bool number_float(double v, const std::string&) { return Add(v); }
  bool string(std::string& v) { return Add(std::move(v)); }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(std::size_t) { return Open(Json::Object{}); }
  bool start_array(std::size_t) { return Open(Json::Array{}); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }

  bool key(std::string& name) {
    auto& object = std::get<Json::Object>(open_.back()->value);
    if (!keys_.back().insert(name).second) {
      Fail(ErrorCode::kParse, what_, ": the key '", name, "' is given twice");
    }
    object.emplace_back().first = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) {
    Fail(ErrorCode::kParse, what_, ": malformed JSON at byte ", position);
  }

 private:
  Json& Place(Json v) {
    if (open_.empty()) return root_ = std::move(v);
    if (auto* array = std::get_if<Json::Array>(&open_.back()->value)) {
      return array->emplace_back(std::move(v));
    }
    return std::get<Json::Object>(open_.back()->value).back().second = std::move(v);
  }
  bool Add(Json v) {
    Place(std::move(v));
    return true;
  }
  // An enclosing container does not grow while one inside it is open, so the pointers hold.
  bool Open(Json v) {
    if (static_cast<int>(open_.size()) >= max_depth_) {
      Fail(ErrorCode::kParse, what_, ": nested deeper than ", max_depth_);
    }
    open_.push_back(&Place(std::move(v)));
    keys_.emplace_back();
    return true;
  }
  bool Close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  const std::string& what_;
  const int max_depth_;
  Json root_;
  std::vector<Json*> open_;
  std::vector<std::set<std::string>> keys_;  // of every open container
};

nlohmann::ordered_json Convert(const Json& json) {
  struct Visitor {
    nlohmann::ordered_json operator()(std::nullptr_t) const { return nullptr; }
    nlohmann::ordered_json operator()(bool v) const { return v; }
    nlohmann::ordered_json operator()(int64_t v) const { return v; }
    nlohmann::ordered_json operator()(double v) const { return v; }
    nlohmann::ordered_json operator()(const std::string& v) const { return v; }
    nlohmann::ordered_json operator()(const Json::Array& v) const {
      auto out = nlohmann::ordered_json::array();
      for (const Json& e : v) out.push_back(Convert(e));
      return out;
    }
    nlohmann::ordered_json operator()(const Json::Object& v) const {
      auto out = nlohmann::ordered_json::object();
      for (const auto& [key, e] : v) out[key] = Convert(e);
      return out;
    }
  };
  return std::visit(Visitor(), json.value);
}

template <typename T>
const T& Member(const Json& object, std::string_view key, const std::string& what,
                const char* type) {
  const Json* member = object.Find(key);
  const T* value = member ? member->As<T>() : nullptr;
  if (!value) Fail(ErrorCode::kParse, what, ": no ", type, " '", key, "'");
  return *value;
}

}  // namespace

const Json* Json::Find(std::string_view key) const {
  const auto* object = As<Object>();
  if (!object) return nullptr;
  for (const auto& [name, member] : *object) {
    if (name == key) return &member;
  }
  return nullptr;
}

Json ParseJson(std::string_view text, const std::string& what, int max_depth) {
  Reader reader(what, max_depth);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) {
    Fail(ErrorCode::kParse, what, ": malformed JSON");
  }
  return reader.Take();
}

bool IsUtf8(std::string_view text) {
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

std::string PrintJson(const Json& json, int indent) {
  return Convert(json).dump(indent > 0 ? indent : -1);
}

const std::string& JsonString(const Json& object, std::string_view key, const std::string& what) {
  return Member<std::string>(object, key, what, "string");
}
int64_t JsonInt(const Json& object, std::string_view key, const std::string& what) {
  return Member<int64_t>(object, key, what, "integer");
}
const Json::Object& JsonObject(const Json& object, std::string_view key, const std::string& what) {
  return Member<Json::Object>(object, key, what, "object");
}

}  // namespace stator
