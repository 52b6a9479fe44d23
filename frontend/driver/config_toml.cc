// TOML files of configuration keys. The TOML library is in this file alone.
#include "frontend/driver/config.h"
#include "frontend/driver/file.h"
#include "ir/base/error.h"

#define TOML_EXCEPTIONS 1
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace stator {
namespace {

ConfigValue Convert(const toml::node& node, std::string_view key, const std::string& where) {
  if (const auto* v = node.as_boolean()) return v->get();
  if (const auto* v = node.as_integer()) return v->get();
  if (const auto* v = node.as_floating_point()) return v->get();
  if (const auto* v = node.as_string()) return v->get();
  if (const auto* array = node.as_array()) {
    StringList list;
    for (const toml::node& e : *array) {
      const auto* text = e.as_string();
      if (!text)
        Fail(ErrorCode::kInvalidArgument, key, ": only strings can be listed (", where, ")");
      list.push_back(text->get());
    }
    return list;
  }
  Fail(ErrorCode::kInvalidArgument, key, ": tables and dates are no values; keys stand at the top ",
       "level (", where, ")");
}

}  // namespace

void LoadToml(TrainConfig& config, const std::string& path) {
  const std::vector<char> text = ReadFile(path);
  toml::table table;
  try {
    table = toml::parse(std::string_view(text.data(), text.size()), path);
  } catch (const toml::parse_error& e) {
    Fail(ErrorCode::kParse, path, ":", e.source().begin.line, ": ", e.description());
  }
  for (const auto& [key, node] : table) {
    const std::string where = StrCat(path, ":", node.source().begin.line);
    // An unknown key is reported as such even when its value is odd.
    if (!FindConfigKey(key.str())) SetConfig(config, key.str(), std::string(), where);
    SetConfig(config, key.str(), Convert(node, key.str(), where), where);
  }
}

}  // namespace stator
