// The safetensors format (https://github.com/huggingface/safetensors, "Format"): 8 bytes of header
// length, a JSON header that gives every tensor's dtype, shape and byte range, then the bytes.
#pragma once

#include "frontend/driver/file.h"
#include "ir/type.h"

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace stator {

struct TensorInfo {
  std::string name;
  Type type;
  int64_t offset = 0;  // of its first byte in the file
};

// A file opened and checked as a whole: a header within the file, known dtypes, ranges that hold
// exactly what the shapes say and that cover the data without overlap or hole.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(
      const std::string& path);  // throws `Error` (kIo, kParse) naming the file

  const std::string& path() const { return file_.path(); }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // by offset
  const TensorInfo* Find(std::string_view name) const;                 // null when absent
  std::vector<char> Read(const TensorInfo& tensor) const;
  // The bytes of `tensor` from `offset` on. Threads may read at once.
  void Read(const TensorInfo& tensor, int64_t offset, std::span<char> out) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  void ParseHeader(std::string_view header, int64_t data_start);

  InputFile file_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
  std::map<std::string, std::string> metadata_;
};

struct TensorToWrite {
  std::string name;
  Type type;
};

// Writes and syncs `path`. `read` is asked once for each tensor's bytes, in order, so that no more
// than one is in memory.
void WriteSafetensors(const std::string& path, const std::vector<TensorToWrite>& tensors,
                      const std::map<std::string, std::string>& metadata,
                      const std::function<std::vector<char>(const std::string& name)>& read);

}  // namespace stator
