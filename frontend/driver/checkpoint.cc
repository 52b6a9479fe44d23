#include "frontend/driver/checkpoint.h"

#include "frontend/driver/checksum.h"
#include "frontend/driver/file.h"
#include "frontend/driver/json.h"
#include "frontend/driver/safetensors.h"
#include "ir/base/error.h"
#include "ir/base/parallel.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>

namespace stator {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kStateFile = "state.safetensors";
constexpr const char* kInfoFile = "checkpoint.json";
constexpr const char* kLatest = "latest";
constexpr int kMaxTries = 10;  // to read a checkpoint that is replaced meanwhile
constexpr const char* kFormat = "stator checkpoint";

bool IsParameter(const StateEntry& state) { return state.role == "parameter"; }

std::vector<TensorToWrite> Select(const Plan& plan, bool parameters) {
  std::vector<TensorToWrite> tensors;
  for (const StateEntry& s : plan.states) {
    if (IsCheckpointed(s) && IsParameter(s) == parameters) tensors.push_back({s.name, s.type});
  }
  return tensors;
}

Json::Object Texts(const std::map<std::string, std::string>& map) {
  Json::Object object;
  for (const auto& [key, value] : map) object.emplace_back(key, value);
  return object;
}

std::map<std::string, std::string> ReadTexts(const Json& json, std::string_view key,
                                             const std::string& what) {
  std::map<std::string, std::string> map;
  for (const auto& [name, value] : JsonObject(json, key, what)) {
    const auto* text = value.As<std::string>();
    if (!text) Fail(ErrorCode::kParse, what, ": ", key, ": '", name, "' is no string");
    map[name] = *text;
  }
  return map;
}

int64_t FileBytes(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? -1 : static_cast<int64_t>(size);
}

// Whether one of `count` elements has all bits of `exponent`, as infinities and NaNs do. A function
// of its own, without a way out of its loop: so it becomes vector instructions.
template <typename Word>
bool AnyHasAll(const char* at, size_t count, Word exponent) {
  Word found = 0;
#pragma omp simd reduction(| : found)
  for (size_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, at + i * sizeof(Word), sizeof word);
    found |= static_cast<Word>((word & exponent) == exponent);
  }
  return found != 0;
}

template <typename Word>
bool AllFinite(const std::vector<char>& bytes, Word exponent) {
  constexpr size_t kSlice = size_t{1} << 20;  // bytes
  std::atomic<bool> finite = true;
  ParallelFor((bytes.size() + kSlice - 1) / kSlice, [&](size_t slice) {
    const size_t at = slice * kSlice, size = std::min(kSlice, bytes.size() - at);
    if (AnyHasAll(bytes.data() + at, size / sizeof(Word), exponent)) finite = false;
  });
  return finite;
}

bool AllFinite(DType dtype, const std::vector<char>& bytes) {
  switch (dtype) {
    case DType::kF64:
      return AllFinite(bytes, uint64_t{0x7ff0} << 48);
    case DType::kF32:
      return AllFinite(bytes, uint32_t{0x7f800000});
    case DType::kBF16:
      return AllFinite(bytes, uint16_t{0x7f80});
    case DType::kF16:
      return AllFinite(bytes, uint16_t{0x7c00});
    default:
      return true;
  }
}

void WriteDirectory(Executor& executor, const CheckpointInfo& info, const std::string& directory) {
  std::map<std::string, std::string> checksums;
  const auto read = [&](const std::string& name) {
    std::vector<char> bytes = executor.ReadState(name);
    const StateEntry& state = *executor.plan().FindState(name);
    if (IsParameter(state) && !AllFinite(state.type.dtype, bytes)) {
      Fail(ErrorCode::kInvalidArgument, "no checkpoint after ", info.iteration, " updates: '", name,
           "' has elements that are not finite");
    }
    checksums[name] = ChecksumText(ChecksumOf(bytes));
    return bytes;
  };
  Json::Object files;
  for (const bool parameters : {true, false}) {
    const std::string path = StrCat(directory, "/", parameters ? kModelFile : kStateFile);
    WriteSafetensors(path, Select(executor.plan(), parameters), {{"format", kFormat}}, read);
    files.emplace_back(parameters ? kModelFile : kStateFile, FileBytes(path));
  }
  const Json json = Json::Object{{"format", kFormat},
                                 {"version", kCheckpointVersion},
                                 {"iteration", info.iteration},
                                 {"files", std::move(files)},
                                 {"config", Texts(info.config)},
                                 {"versions", Texts(info.versions)},
                                 {"crc32", Texts(checksums)}};
  OutputFile file(StrCat(directory, "/", kInfoFile));
  file.WriteText(PrintJson(json, 2) + "\n");
  file.Close();
  SyncDirectory(directory);
}

// A name that no directory has yet: an earlier run may have left the same step.
std::string FreeName(const std::string& out_dir, int64_t iteration) {
  char base[32];
  std::snprintf(base, sizeof base, "step-%08lld", static_cast<long long>(iteration));
  std::string name = base;
  for (int i = 2; PathExists(StrCat(out_dir, "/", name)); ++i) name = StrCat(base, ".", i);
  return name;
}

// step-00000100, or step-00000100.2, as FreeName makes them.
bool IsOurName(std::string_view name) {
  const auto take_digits = [&name] {
    size_t n = 0;
    while (n < name.size() && name[n] >= '0' && name[n] <= '9') ++n;
    name.remove_prefix(n);
    return n;
  };
  if (!name.starts_with("step-")) return false;
  name.remove_prefix(5);
  if (take_digits() < 8) return false;
  if (name.empty()) return true;
  if (name[0] != '.') return false;
  name.remove_prefix(1);
  return take_digits() > 0 && name.empty();
}

// What is in `directory`; nothing where it is missing.
std::vector<std::string> NamesIn(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename());
  }
  if (error && error != std::errc::no_such_file_or_directory &&
      error != std::errc::not_a_directory) {
    Fail(ErrorCode::kIo, "cannot read the folder ", directory, ": ", error.message());
  }
  return names;
}

// The newest checkpoint that has its name, and so is whole, "" without one: a process may have been
// killed before it said which is the latest.
std::string NewestOf(const std::string& out_dir) {
  std::pair<long long, long long> newest = {-1, 0};
  std::string found;
  for (const std::string& name : NamesIn(out_dir)) {
    const std::string path = StrCat(out_dir, "/", name);
    if (!IsOurName(name) || !IsCheckpoint(path)) continue;
    const size_t dot = name.find('.');
    const std::pair<long long, long long> place = {
        std::atoll(name.c_str() + 5), dot == name.npos ? 0 : std::atoll(name.c_str() + dot + 1)};
    if (place <= newest) continue;
    newest = place;
    found = path;
  }
  return found;
}

// Older checkpoints, and what a crash left; never `keep`, nor a folder that somebody has named.
void RemoveOthers(const std::string& out_dir, const std::string& keep) {
  std::error_code ignored;  // leftovers cost space, nothing else
  for (const std::string& name : NamesIn(out_dir)) {
    const std::string path = StrCat(out_dir, "/", name);
    const std::string_view made =
        name.starts_with(".tmp-") ? std::string_view(name).substr(5) : name;
    const bool unfinished = IsTemporaryOf(name, kLatest) || IsTemporaryOf(name, kMetricsFile);
    if (unfinished) fs::remove(path, ignored);
    if (name == keep || !IsOurName(made)) continue;
    if (fs::is_directory(path, ignored)) fs::remove_all(path, ignored);
  }
}

}  // namespace

bool IsCheckpointed(const StateEntry& state) { return !state.derived && state.role != "gradient"; }

std::string SaveCheckpoint(Executor& executor, const CheckpointInfo& info,
                           const std::string& out_dir) {
  CreateDirectories(out_dir);
  std::error_code error;
  const std::string name = FreeName(out_dir, info.iteration);
  const std::string temporary = StrCat(out_dir, "/.tmp-", name);
  fs::remove_all(temporary, error);
  fs::create_directory(temporary, error);
  if (error) Fail(ErrorCode::kIo, "cannot create ", temporary, ": ", error.message());
  try {
    WriteDirectory(executor, info, temporary);
  } catch (...) {
    fs::remove_all(temporary, error);  // a full disk should not stay full of it
    throw;
  }
  const std::string directory = StrCat(out_dir, "/", name);
  RenamePath(temporary, directory);
  SyncDirectory(out_dir);
  WriteFileAtomically(StrCat(out_dir, "/", kLatest), name + "\n");
  RemoveOthers(out_dir, name);
  return directory;
}

bool IsCheckpoint(const std::string& directory) {
  return PathExists(StrCat(directory, "/", kInfoFile));
}

std::string FindCheckpoint(const std::string& out_dir) {
  if (IsCheckpoint(out_dir)) return out_dir;
  const std::string latest = StrCat(out_dir, "/", kLatest);
  std::error_code error;
  const bool named = fs::exists(latest, error);
  if (error) {
    Fail(ErrorCode::kIo, "cannot read ", latest, ": ", error.message(),
         "; without that file the newest checkpoint counts");
  }
  if (!named) return NewestOf(out_dir);
  const std::vector<char> text = ReadFile(latest);
  const std::string name(Trim(std::string_view(text.data(), text.size())));
  if (name.empty() || name.find('/') != std::string::npos) {
    Fail(ErrorCode::kParse, latest, ": '", name, "' is no name of a checkpoint");
  }
  return StrCat(out_dir, "/", name);
}

void WithCheckpoint(const std::string& out_dir,
                    const std::function<void(const std::string& directory)>& read) {
  for (int tries = kMaxTries;; --tries) {
    const std::string directory = FindCheckpoint(out_dir);
    try {
      return read(directory);
    } catch (const Error&) {
      // `latest` names another before the old one is removed.
      if (tries == 1 || FindCheckpoint(out_dir) == directory) throw;
    }
  }
}

CheckpointInfo ReadCheckpointInfo(const std::string& directory) {
  const std::string path = StrCat(directory, "/", kInfoFile);
  const std::vector<char> text = ReadFile(path);
  const Json json = ParseJson(std::string_view(text.data(), text.size()), path);
  if (JsonString(json, "format", path) != kFormat) {
    Fail(ErrorCode::kParse, path, ": not a checkpoint of stator's");
  }
  const int64_t version = JsonInt(json, "version", path);
  if (version < 1 || version > kCheckpointVersion) {
    Fail(ErrorCode::kParse, path, ": version ", version, ", this stator reads up to ",
         kCheckpointVersion);
  }
  for (const auto& [name, bytes] : JsonObject(json, "files", path)) {
    const int64_t there = FileBytes(StrCat(directory, "/", name));
    const int64_t* expected = bytes.As<int64_t>();
    if (!expected || there != *expected) {
      Fail(ErrorCode::kParse, directory, "/", name, ": ",
           there < 0 ? "missing" : "cut off or changed",
           expected ? StrCat(", ", *expected, " bytes expected") : "");
    }
  }
  CheckpointInfo info;
  info.iteration = JsonInt(json, "iteration", path);
  if (info.iteration < 0) Fail(ErrorCode::kParse, path, ": iteration ", info.iteration);
  info.config = ReadTexts(json, "config", path);
  info.versions = ReadTexts(json, "versions", path);
  if (json.Find("crc32")) info.checksums = ReadTexts(json, "crc32", path);
  return info;
}

}  // namespace stator
