#include "frontend/driver/safetensors.h"

#include "frontend/driver/json.h"
#include "ir/base/error.h"

#include <algorithm>
#include <utility>

namespace stator {
namespace {

constexpr int64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr std::string_view kMetadata = "__metadata__";

constexpr std::pair<DType, std::string_view> kDTypes[] = {
    {DType::kF64, "F64"}, {DType::kF32, "F32"},        {DType::kBF16, "BF16"},
    {DType::kF16, "F16"}, {DType::kF8E4M3, "F8_E4M3"}, {DType::kF8E5M2, "F8_E5M2"},
    {DType::kI64, "I64"}, {DType::kI32, "I32"},        {DType::kU32, "U32"},
    {DType::kU16, "U16"}, {DType::kU8, "U8"},          {DType::kBool, "BOOL"},
};

std::string_view SafetensorsName(DType dtype) {
  for (const auto& [d, name] : kDTypes) {
    if (d == dtype) return name;
  }
  STATOR_CHECK(false, "dtype ", Name(dtype), " has no safetensors name");
  return "";
}

DType ParseSafetensorsDType(std::string_view text, const std::string& what) {
  for (const auto& [dtype, name] : kDTypes) {
    if (name == text) return dtype;
  }
  Fail(ErrorCode::kParse, what, ": dtype '", Escaped(text), "' is not supported");
}

const Json::Array& Integers(const Json& tensor, std::string_view key, const std::string& what) {
  const Json* member = tensor.Find(key);
  const auto* array = member ? member->As<Json::Array>() : nullptr;
  if (!array) Fail(ErrorCode::kParse, what, ": no array '", key, "'");
  for (const Json& e : *array) {
    const int64_t* v = e.As<int64_t>();
    if (!v || *v < 0)
      Fail(ErrorCode::kParse, what, ": '", key, "' holds something that is no size");
  }
  return *array;
}

// The bytes of a shape, or an error when their count does not fit 64 bits.
int64_t CheckedBytes(const Type& type, const std::string& what) {
  int64_t bytes = ByteWidth(type.dtype);
  // A zero anywhere makes the tensor empty, however large the other sizes.
  if (std::find(type.shape.begin(), type.shape.end(), 0) != type.shape.end()) return 0;
  for (int64_t d : type.shape) {
    if (__builtin_mul_overflow(bytes, d, &bytes)) {
      Fail(ErrorCode::kParse, what, ": the shape ", type.shape, " is beyond 64 bits");
    }
  }
  return bytes;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  if (file_.size() < 8) {
    Fail(ErrorCode::kParse, path, ": ", file_.size(), " bytes are no safetensors file");
  }
  unsigned char prefix[8];
  file_.Read(0, std::span(reinterpret_cast<char*>(prefix), 8));
  uint64_t header_bytes = 0;  // little endian
  for (int i = 7; i >= 0; --i) header_bytes = header_bytes << 8 | prefix[i];
  if (header_bytes > static_cast<uint64_t>(std::min(kMaxHeaderBytes, file_.size() - 8))) {
    Fail(ErrorCode::kParse, path, ": a header of ", header_bytes, " bytes cannot be in a file of ",
         file_.size(), " bytes; not safetensors, or cut off");
  }
  std::string header(header_bytes, '\0');
  file_.Read(8, header);
  ParseHeader(header, 8 + static_cast<int64_t>(header_bytes));
}

void SafetensorsFile::ParseHeader(std::string_view header, int64_t data_start) {
  const Json json = ParseJson(header, path(), 3);
  const auto* members = json.As<Json::Object>();
  if (!members) Fail(ErrorCode::kParse, path(), ": the header is no JSON object");
  const int64_t data_bytes = file_.size() - data_start;
  std::vector<int64_t> ends;
  for (const auto& [name, member] : *members) {
    const std::string what = StrCat(path(), ": tensor '", Escaped(name), "'");
    const auto* fields = member.As<Json::Object>();
    if (!fields) Fail(ErrorCode::kParse, what, ": not an object");
    if (name == kMetadata) {
      for (const auto& [key, value] : *fields) {
        const auto* text = value.As<std::string>();
        if (!text) Fail(ErrorCode::kParse, path(), ": metadata '", Escaped(key), "' is no string");
        metadata_[key] = *text;
      }
      continue;
    }
    TensorInfo tensor;
    tensor.name = name;
    tensor.type.dtype = ParseSafetensorsDType(JsonString(member, "dtype", what), what);
    for (const Json& d : Integers(member, "shape", what)) {
      tensor.type.shape.push_back(*d.As<int64_t>());
    }
    const Json::Array& range = Integers(member, "data_offsets", what);
    if (range.size() != 2) Fail(ErrorCode::kParse, what, ": 'data_offsets' is no pair");
    const int64_t begin = *range[0].As<int64_t>(), end = *range[1].As<int64_t>();
    if (begin > end || end > data_bytes) {
      Fail(ErrorCode::kParse, what, ": bytes ", begin, " to ", end, " are outside the ", data_bytes,
           " of data");
    }
    const int64_t bytes = CheckedBytes(tensor.type, what);
    if (end - begin != bytes) {
      Fail(ErrorCode::kParse, what, ": ", tensor.type.ToString(), " takes ", bytes,
           " bytes, the header gives it ", end - begin);
    }
    tensor.offset = data_start + begin;
    tensors_.push_back(std::move(tensor));
  }
  // Empty tensors sort before the one that starts where they do.
  std::sort(tensors_.begin(), tensors_.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tuple(a.offset, a.type.Bytes(), std::string_view(a.name)) <
           std::tuple(b.offset, b.type.Bytes(), std::string_view(b.name));
  });
  int64_t at = data_start;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].offset != at) {
      Fail(ErrorCode::kParse, path(), ": tensor '", Escaped(tensors_[i].name), "' starts at byte ",
           tensors_[i].offset, " where the one before it ends at ", at);
    }
    at += tensors_[i].type.Bytes();
    index_[tensors_[i].name] = i;
  }
  if (at != file_.size()) {
    Fail(ErrorCode::kParse, path(), ": ", file_.size() - at, " bytes belong to no tensor");
  }
}

const TensorInfo* SafetensorsFile::Find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

std::vector<char> SafetensorsFile::Read(const TensorInfo& tensor) const {
  std::vector<char> bytes(tensor.type.Bytes());
  Read(tensor, 0, bytes);
  return bytes;
}

void SafetensorsFile::Read(const TensorInfo& tensor, int64_t offset, std::span<char> out) const {
  file_.Read(tensor.offset + offset, out);
}

void WriteSafetensors(const std::string& path, const std::vector<TensorToWrite>& tensors,
                      const std::map<std::string, std::string>& metadata,
                      const std::function<std::vector<char>(const std::string& name)>& read) {
  Json::Object header;
  if (!metadata.empty()) {
    Json::Object texts;
    for (const auto& [key, value] : metadata) texts.emplace_back(key, value);
    header.emplace_back(kMetadata, std::move(texts));
  }
  int64_t offset = 0;
  for (const TensorToWrite& t : tensors) {
    const int64_t end = offset + t.type.Bytes();
    Json::Array shape(t.type.shape.begin(), t.type.shape.end());
    header.emplace_back(t.name, Json::Object{{"dtype", std::string(SafetensorsName(t.type.dtype))},
                                             {"shape", std::move(shape)},
                                             {"data_offsets", Json::Array{offset, end}}});
    offset = end;
  }
  std::string text = PrintJson(std::move(header));
  text.append((8 - text.size() % 8) % 8, ' ');  // the data starts aligned
  std::string prefix(8, '\0');
  for (int i = 0; i < 8; ++i) prefix[i] = static_cast<char>(text.size() >> (8 * i));

  OutputFile file(path);
  file.WriteText(prefix);
  file.WriteText(text);
  for (const TensorToWrite& t : tensors) {
    const std::vector<char> bytes = read(t.name);
    STATOR_CHECK(static_cast<int64_t>(bytes.size()) == t.type.Bytes(), t.name, ": ", bytes.size(),
                 " bytes for ", t.type.ToString());
    file.Write(bytes);
  }
  file.Close();
}

}  // namespace stator
