#include "frontend/driver/file.h"

#include "ir/base/error.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace stator {
namespace {

[[noreturn]] void FailErrno(const char* verb, const std::string& path) {
  Fail(ErrorCode::kIo, "cannot ", verb, " ", path, ": ", std::strerror(errno));
}

// Where the bytes of `path` belong: behind a link, at its end.
std::string Destination(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) FailErrno("write", path);
    return path;
  }
  if (S_ISDIR(info.st_mode)) Fail(ErrorCode::kIo, "cannot write ", path, ": it is a folder");
  if (!S_ISREG(info.st_mode)) {
    Fail(ErrorCode::kIo, "cannot write ", path, ": it is not a regular file");
  }
  std::error_code error;
  const std::string end = std::filesystem::canonical(path, error);
  if (error) Fail(ErrorCode::kIo, "cannot write ", path, ": ", error.message());
  return end;
}

constexpr std::string_view kTemporary = ".tmp-";  // and the number of the process

// An empty file beside `destination` that is gone afterwards, unless it was renamed.
struct TemporaryFile {
  TemporaryFile(const std::string& path, const std::string& destination)
      : name(StrCat(destination, kTemporary, getpid())) {
    const int fd = open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) FailErrno("write", path);
    close(fd);
  }
  ~TemporaryFile() { unlink(name.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  const std::string name;
};

}  // namespace

InputFile::InputFile(const std::string& path) : path_(path) {
  // O_NONBLOCK: a FIFO would wait for somebody who writes to it.
  fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) FailErrno("open", path);
  struct stat info;
  const bool known = fstat(fd_, &info) == 0;
  if (!known || !S_ISREG(info.st_mode)) {
    close(fd_);
    Fail(ErrorCode::kIo, path, " is not a regular file");
  }
  size_ = info.st_size;
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(other.fd_), size_(other.size_) {
  other.fd_ = -1;
}

InputFile::~InputFile() {
  if (fd_ >= 0) close(fd_);
}

void InputFile::Read(int64_t offset, std::span<char> out) const {
  while (!out.empty()) {
    const ssize_t n = pread(fd_, out.data(), out.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) FailErrno("read", path_);
    if (n == 0) Fail(ErrorCode::kIo, path_, " ends early, at byte ", offset);
    out = out.subspan(n);
    offset += n;
  }
}

OutputFile::OutputFile(const std::string& path) : path_(path) {
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) FailErrno("create", path);
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) close(fd_);
}

void OutputFile::Write(std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) FailErrno("write", path_);
    bytes = bytes.subspan(n);
  }
}

void OutputFile::Close() {
  if (fsync(fd_) != 0) FailErrno("sync", path_);
  const int fd = fd_;
  fd_ = -1;
  if (close(fd) != 0) FailErrno("close", path_);
}

std::vector<char> ReadFile(const std::string& path) {
  const InputFile file(path);
  std::vector<char> bytes(file.size());
  file.Read(0, bytes);
  return bytes;
}

void WriteFileAtomically(const std::string& path, std::string_view text) {
  const std::string destination = Destination(path);
  const TemporaryFile temporary(path, destination);
  OutputFile file(temporary.name);
  file.WriteText(text);
  file.Close();
  RenamePath(temporary.name, destination);
  const size_t slash = destination.rfind('/');
  SyncDirectory(slash == std::string::npos ? "." : slash == 0 ? "/" : destination.substr(0, slash));
}

bool IsTemporaryOf(std::string_view name, std::string_view file) {
  for (const std::string_view start : {file, kTemporary}) {
    if (!name.starts_with(start)) return false;
    name.remove_prefix(start.size());
  }
  return !name.empty() && name.find_first_not_of("0123456789") == name.npos;
}

void CheckWritable(const std::string& path) { const TemporaryFile file(path, Destination(path)); }

bool PathExists(const std::string& path) {
  std::error_code error;
  const bool exists = std::filesystem::exists(path, error);
  if (error) Fail(ErrorCode::kIo, "cannot look at ", path, ": ", error.message());
  return exists;
}

void CreateDirectories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) Fail(ErrorCode::kIo, "cannot create the folder ", path, ": ", error.message());
}

DirectoryLock::DirectoryLock(const std::string& directory)
    : fd_(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (fd_ < 0) FailErrno("open", directory);
  // Some file systems have no locks: there nobody is kept out.
  if (flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  close(fd_);
  Fail(ErrorCode::kInvalidArgument, "another run writes to ", directory,
       ": wait for its end, or give this one an out_dir of its own");
}

DirectoryLock::~DirectoryLock() { close(fd_); }

void SyncDirectory(const std::string& directory) {
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) FailErrno("open", directory);
  // Some file systems cannot sync a directory, and say EINVAL.
  const bool failed = fsync(fd) != 0 && errno != EINVAL;
  const int error = errno;
  close(fd);
  errno = error;
  if (failed) FailErrno("sync", directory);
}

void RenamePath(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) FailErrno("rename to", to);
}

}  // namespace stator
