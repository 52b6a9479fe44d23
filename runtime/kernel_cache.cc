#include "runtime/kernel_cache.h"

#include "ir/base/error.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

namespace stator {
namespace {

namespace fs = std::filesystem;

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The data must be on disk before the name is, or a power cut leaves an empty entry.
void SyncFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

}  // namespace

std::string KernelCacheDir(const std::string& option) {
  if (!option.empty()) return option;
  if (const std::string dir = FromEnvironment("STATOR_CACHE"); !dir.empty()) return dir;
  if (const std::string dir = FromEnvironment("XDG_CACHE_HOME"); !dir.empty())
    return dir + "/stator";
  if (const std::string dir = FromEnvironment("HOME"); !dir.empty()) return dir + "/.cache/stator";
  Fail(ErrorCode::kEnvironment,
       "no place for the kernel cache: set STATOR_CACHE (HOME and XDG_CACHE_HOME are not set)");
}

KernelCache::KernelCache(std::string dir, int64_t limit) : dir_(std::move(dir)), limit_(limit) {
  std::error_code error;
  fs::create_directories(dir_, error);
  if (error || !fs::is_directory(dir_)) {
    Fail(ErrorCode::kIo, "cannot create the kernel cache ", dir_, ": ",
         error ? error.message() : std::string("not a directory"),
         "; choose another place with --compile_cache or STATOR_CACHE");
  }
}

std::string KernelCache::PathOf(const std::string& key, const std::string& extension) const {
  return dir_ + "/" + key + "." + extension;
}

std::string KernelCache::TemporaryPath(const std::string& extension) const {
  static std::atomic<int> counter{0};
  return StrCat(dir_, "/tmp.", getpid(), ".", counter.fetch_add(1), ".", extension);
}

bool KernelCache::Has(const std::string& key, const std::string& extension) const {
  return access(PathOf(key, extension).c_str(), R_OK) == 0;
}

void KernelCache::Touch(const std::string& key, const std::string& extension) {
  // Fails on a read-only cache, which then has no order of use: harmless.
  utimensat(AT_FDCWD, PathOf(key, extension).c_str(), nullptr, 0);
}

std::optional<std::vector<char>> KernelCache::Load(const std::string& key,
                                                   const std::string& extension) {
  std::ifstream in(PathOf(key, extension), std::ios::binary);
  if (!in) return std::nullopt;
  std::vector<char> bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (in.bad()) return std::nullopt;
  Touch(key, extension);
  return bytes;
}

void KernelCache::Store(const std::string& key, const std::string& extension,
                        std::span<const char> bytes) {
  const std::string path = TemporaryPath(extension);
  {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (!out) {
      const std::string why = std::strerror(errno);
      std::remove(path.c_str());
      Fail(ErrorCode::kIo, "cannot write to the kernel cache: ", path, ": ", why);
    }
  }
  Adopt(path, key, extension);
}

void KernelCache::Adopt(const std::string& path, const std::string& key,
                        const std::string& extension) {
  SyncFile(path);
  if (std::rename(path.c_str(), PathOf(key, extension).c_str()) != 0) {
    const std::string why = std::strerror(errno);
    std::remove(path.c_str());
    Fail(ErrorCode::kIo, "cannot write to the kernel cache: ", PathOf(key, extension), ": ", why);
  }
  Shrink(key);
}

void KernelCache::Shrink(const std::string& keep_key) {
  // The files of one key (source and binary) come and go together.
  struct Entry {
    int64_t bytes = 0;
    fs::file_time_type used = fs::file_time_type::min();
    std::vector<fs::path> files;
  };
  std::map<std::string, Entry> entries;
  int64_t total = 0;
  std::error_code error;
  for (const fs::directory_entry& file : fs::directory_iterator(dir_, error)) {
    if (!file.is_regular_file(error)) continue;
    const int64_t bytes = static_cast<int64_t>(file.file_size(error));
    const fs::file_time_type used = file.last_write_time(error);
    if (error) continue;  // another process removed it
    Entry& entry = entries[file.path().stem().string()];
    entry.bytes += bytes;
    entry.used = std::max(entry.used, used);
    entry.files.push_back(file.path());
    total += bytes;
  }
  if (total <= limit_) return;
  std::vector<std::pair<fs::file_time_type, std::string>> by_use;
  for (const auto& [key, entry] : entries) {
    if (key != keep_key) by_use.emplace_back(entry.used, key);
  }
  std::sort(by_use.begin(), by_use.end());
  // Down to nine tenths, so that a full cache is not scanned for every new entry in vain.
  for (const auto& [used, key] : by_use) {
    if (total <= limit_ / 10 * 9) break;
    for (const fs::path& file : entries[key].files) fs::remove(file, error);
    total -= entries[key].bytes;
  }
}

}  // namespace stator
