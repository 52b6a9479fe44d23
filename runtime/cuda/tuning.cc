#include "runtime/cuda/tuning.h"

#include "ir/base/error.h"

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

namespace stator {
namespace {

using Json = nlohmann::json;
constexpr int kFormat = 1;

}  // namespace

TuningFile::TuningFile(std::string path, std::string scope)
    : path_(std::move(path)), scope_(std::move(scope)), entries_(Read(path_)) {}

TuningFile::~TuningFile() {
  if (lock_ >= 0) (void)close(lock_);
}

void TuningFile::Lock() {
  if (lock_ >= 0 || path_.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  // Where no lock can be had, ranks may choose apart in their first run; the file keeps one choice.
  lock_ = open(StrCat(path_, ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  if (lock_ < 0 || flock(lock_, LOCK_EX) != 0) return;
  const Entries stored = Read(path_);
  const auto found = stored.find(scope_);
  if (found == stored.end()) return;
  for (const auto& [key, choice] : found->second) entries_[scope_].emplace(key, choice);
}

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
  std::ifstream in(path);
  if (path.empty() || !in) return {};
  return Parse(in, path);
}

TuningFile::Entries TuningFile::Parse(std::istream& in, const std::string& path) {
  Entries entries;
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
  struct Unlock {
    int& lock;
    ~Unlock() {
      if (lock >= 0) (void)close(lock);
      lock = -1;
    }
  } unlock{lock_};
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

namespace {

// Tuning files as `stator tune` writes them, one a device and library version.
constexpr const char* kRecorded[] = {
#include "runtime/cuda/tuning/recorded.inc"
};

}  // namespace

std::optional<TunedChoice> FindRecorded(const std::string& scope, const std::string& key) {
  for (const char* text : kRecorded) {
    std::istringstream in(text);
    const auto entries = TuningFile::Parse(in, "recorded tuning");
    const auto found = entries.find(scope);
    if (found == entries.end()) continue;
    const auto choice = found->second.find(key);
    if (choice != found->second.end()) return choice->second;
  }
  return std::nullopt;
}

}  // namespace stator
