#include "runtime/cuda/tuning.h"

#include "ir/base/error.h"

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace stator {
namespace {

using Json = nlohmann::json;
constexpr int kFormat = 1;

}  // namespace

TuningFile::TuningFile(std::string path, std::string scope)
    : path_(std::move(path)), scope_(std::move(scope)), entries_(Read(path_)) {}

std::optional<TunedChoice> TuningFile::Find(const std::string& key) const {
  const auto scope = entries_.find(scope_);
  if (scope == entries_.end()) return std::nullopt;
  const auto found = scope->second.find(key);
  if (found == scope->second.end()) return std::nullopt;
  return found->second;
}

void TuningFile::Put(const std::string& key, const TunedChoice& choice) {
  entries_[scope_][key] = choice;
  changed_ = true;
}

TuningFile::Entries TuningFile::Read(const std::string& path) {
  Entries entries;
  std::ifstream in(path);
  if (path.empty() || !in) return entries;
  try {
    const Json root = Json::parse(in);
    if (root.at("format").get<int>() != kFormat) {
      Fail(ErrorCode::kParse, path, ": tuning file of format ", root.at("format").get<int>(),
           ", this program reads ", kFormat);
    }
    for (const auto& [scope, problems] : root.at("scopes").items()) {
      for (const auto& [key, entry] : problems.items()) {
        TunedChoice choice;
        choice.milliseconds = entry.at("ms").get<double>();
        choice.algorithm = entry.at("algorithm").get<AlgorithmBits>();
        entries[scope][key] = choice;
      }
    }
  } catch (const Json::exception& e) {
    Fail(ErrorCode::kParse, path, ": damaged tuning file (remove it to tune again): ", e.what());
  }
  return entries;
}

void TuningFile::Save() {
  if (!changed_ || path_.empty()) return;
  Entries merged = Read(path_);
  // A choice that another process stored first stays: all that come later use it.
  for (const auto& [key, choice] : entries_[scope_]) merged[scope_].emplace(key, choice);
  Json scopes = Json::object();
  for (const auto& [scope, problems] : merged) {
    for (const auto& [key, choice] : problems) {
      scopes[scope][key] = {{"ms", choice.milliseconds}, {"algorithm", choice.algorithm}};
    }
  }
  const std::string temporary = StrCat(path_, ".", getpid(), ".tmp");
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  {
    std::ofstream out(temporary);
    out << Json{{"format", kFormat}, {"scopes", scopes}}.dump(1) << '\n';
    if (!out.flush()) Fail(ErrorCode::kIo, "cannot write the tuning file ", temporary);
  }
  if (std::rename(temporary.c_str(), path_.c_str()) != 0) {
    Fail(ErrorCode::kIo, "cannot write the tuning file ", path_);
  }
  changed_ = false;
}

}  // namespace stator
