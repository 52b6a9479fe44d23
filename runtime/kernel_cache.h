// The on-disk cache of compiled kernels, shared by the CPU and CUDA executors: small files named by
// key and extension in one directory, so that what was compiled can be read and disassembled.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace stator {

inline constexpr int64_t kKernelCacheBytes = int64_t{2} << 30;

// `option` when given, else $STATOR_CACHE, $XDG_CACHE_HOME/stator or ~/.cache/stator. Throws
// `Error` (kEnvironment) when none of them is set.
std::string KernelCacheDir(const std::string& option);

// Safe for many processes at once: files appear by rename, complete or not at all.
class KernelCache {
 public:
  // Creates `dir` when it does not exist; throws `Error` (kIo) when that fails. Beyond `limit`
  // bytes Store drops the entries that were used least recently.
  explicit KernelCache(std::string dir, int64_t limit = kKernelCacheBytes);

  // The bytes stored under `key`, and marks the key as used. `extension` comes without a dot.
  std::optional<std::vector<char>> Load(const std::string& key, const std::string& extension);
  void Store(const std::string& key, const std::string& extension, std::span<const char> bytes);

  bool Has(const std::string& key, const std::string& extension) const;
  // Marks the key as used just now.
  void Touch(const std::string& key, const std::string& extension);
  std::string PathOf(const std::string& key, const std::string& extension) const;
  // A path in the same directory that nobody else uses, to be renamed or removed by the caller.
  std::string TemporaryPath(const std::string& extension) const;
  // Makes the file at `path` (from TemporaryPath) the entry of `key`.
  void Adopt(const std::string& path, const std::string& key, const std::string& extension);

  const std::string& dir() const { return dir_; }

 private:
  void Shrink(const std::string& keep_key);

  std::string dir_;
  int64_t limit_;
};

}  // namespace stator
