// Files that are whole or absent: reading with checked lengths, writing that survives a crash.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stator {

// A regular file opened for reading at given places. Nothing is mapped, so a file that shrinks
// while it is read is an error and not a signal.
class InputFile {
 public:
  explicit InputFile(const std::string& path);  // throws `Error` (kIo)
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }
  // Fills `out` from byte `offset`; throws `Error` (kIo) when the file ends before.
  void Read(int64_t offset, std::span<char> out) const;

 private:
  std::string path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

// A new file, created or emptied. Close() syncs it to the disk; without that call it may be
// partial.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  OutputFile(const OutputFile&) = delete;
  ~OutputFile();
  void Write(std::span<const char> bytes);
  void WriteText(std::string_view text) { Write(std::span(text.data(), text.size())); }
  void Close();

 private:
  std::string path_;
  int fd_ = -1;
};

std::vector<char> ReadFile(const std::string& path);
// Writes `path` through a temporary name beside it, synced, then renamed; what fails leaves nothing
// behind. A link is followed. Throws `Error` (kIo), also where `path` is there and no regular file:
// to rename over a device would take its name away.
void WriteFileAtomically(const std::string& path, std::string_view text);
// Whether a file is called `name` that WriteFileAtomically has not yet renamed to `file`, or never
// will as the process was killed: latest.tmp-123.
bool IsTemporaryOf(std::string_view name, std::string_view file);
// Throws what WriteFileAtomically would, before the work whose result it is to write.
void CheckWritable(const std::string& path);
// Whether there is anything at `path`, behind links. Throws `Error` (kIo) where that cannot be
// told: a folder that may not be searched, links in a circle, a name too long.
bool PathExists(const std::string& path);
// With those above it; it may be there.
void CreateDirectories(const std::string& path);
// Keeps others that ask for it out of a directory, while it lives. Throws `Error` where somebody
// else has it.
class DirectoryLock {
 public:
  explicit DirectoryLock(const std::string& directory);
  DirectoryLock(const DirectoryLock&) = delete;
  ~DirectoryLock();

 private:
  int fd_ = -1;
};

// Makes renames and creations inside `directory` durable.
void SyncDirectory(const std::string& directory);
// Renames over what is there.
void RenamePath(const std::string& from, const std::string& to);

}  // namespace stator
