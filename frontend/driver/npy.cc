#include "frontend/driver/npy.h"

#include "frontend/driver/file.h"
#include "ir/base/error.h"
#include "ir/tensor.h"

#include <string>

namespace stator {
namespace {

const char* NumpyName(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "<f8";
    case DType::kF32:
      return "<f4";
    case DType::kF16:
      return "<f2";
    case DType::kI64:
      return "<i8";
    case DType::kI32:
      return "<i4";
    case DType::kU32:
      return "<u4";
    case DType::kU16:
      return "<u2";
    case DType::kU8:
      return "|u1";
    case DType::kBool:
      return "|b1";
    case DType::kBF16:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      break;
  }
  return nullptr;
}

std::string Header(const char* descr, const Dims& shape) {
  std::string dims;
  for (const int64_t d : shape) dims += StrCat(d, ", ");  // a tuple of one needs its comma
  std::string text =
      StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (", dims, "), }");
  constexpr size_t kFixed = 10, kAlignment = 64;  // magic, version, length
  while ((kFixed + text.size() + 1) % kAlignment != 0) text += ' ';
  text += '\n';
  std::string out = "\x93NUMPY";
  out +=
      {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return out + text;
}

}  // namespace

void WriteNpy(const std::string& path, const Type& type, std::span<const char> bytes) {
  STATOR_CHECK(static_cast<int64_t>(bytes.size()) == type.Bytes(), bytes.size(), " bytes for ",
               type.ToString());
  std::string text;
  if (const char* name = NumpyName(type.dtype)) {
    text = Header(name, type.shape);
    text.append(bytes.begin(), bytes.end());
  } else {
    const Tensor tensor = Tensor::FromBytes(type, bytes.data());
    text = Header("<f4", type.shape);
    for (const double wide : tensor.f) {
      const auto v = static_cast<float>(wide);
      text.append(reinterpret_cast<const char*>(&v), sizeof v);
    }
  }
  WriteFileAtomically(path, text);
}

}  // namespace stator
