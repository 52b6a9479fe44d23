#include "ir/tensor.h"

#include <cstring>

namespace stator {

Tensor::Tensor(Type t) : type(std::move(t)) {
  if (IsFloat(type.dtype)) {
    f.resize(type.NumElements());
  } else {
    i.resize(type.NumElements());
  }
}

void Tensor::Set(int64_t k, double v) {
  if (IsFloat(type.dtype)) {
    f[k] = RoundFloat(type.dtype, v);
  } else {
    i[k] = type.dtype == DType::kBool ? v != 0 : WrapInteger(type.dtype, static_cast<int64_t>(v));
  }
}

void Tensor::SetInt(int64_t k, int64_t v) {
  if (IsFloat(type.dtype)) {
    f[k] = RoundFloat(type.dtype, static_cast<double>(v));
  } else {
    i[k] = WrapInteger(type.dtype, v);
  }
}

namespace {

template <typename T, typename From>
void Store(std::vector<char>& out, const From& from) {
  for (size_t k = 0; k < from.size(); ++k) {
    const T v = static_cast<T>(from[k]);
    std::memcpy(out.data() + k * sizeof(T), &v, sizeof(T));
  }
}

template <typename T, typename To>
void Load(const void* bytes, To& to) {
  for (size_t k = 0; k < to.size(); ++k) {
    T v;
    std::memcpy(&v, static_cast<const char*>(bytes) + k * sizeof(T), sizeof(T));
    to[k] = v;
  }
}

}  // namespace

std::vector<char> Tensor::ToBytes() const {
  std::vector<char> out(type.Bytes());
  switch (type.dtype) {
    case DType::kF64:
      Store<double>(out, f);
      break;
    case DType::kF32:
      Store<float>(out, f);
      break;
    case DType::kI64:
      Store<int64_t>(out, i);
      break;
    case DType::kI32:
      Store<int32_t>(out, i);
      break;
    case DType::kU32:
      Store<uint32_t>(out, i);
      break;
    case DType::kU16:
      Store<uint16_t>(out, i);
      break;
    case DType::kU8:
    case DType::kBool:
      Store<uint8_t>(out, i);
      break;
    default:
      for (size_t k = 0; k < f.size(); ++k) {
        const auto v = static_cast<float>(f[k]);
        if (ByteWidth(type.dtype) == 2) {
          const uint16_t bits = FloatToBits16(type.dtype, v);
          std::memcpy(out.data() + 2 * k, &bits, 2);
        } else {
          out[k] = static_cast<char>(FloatToBits8(type.dtype, v));
        }
      }
  }
  return out;
}

Tensor Tensor::FromBytes(const Type& type, const void* bytes) {
  Tensor t(type);
  switch (type.dtype) {
    case DType::kF64:
      Load<double>(bytes, t.f);
      break;
    case DType::kF32:
      Load<float>(bytes, t.f);
      break;
    case DType::kI64:
      Load<int64_t>(bytes, t.i);
      break;
    case DType::kI32:
      Load<int32_t>(bytes, t.i);
      break;
    case DType::kU32:
      Load<uint32_t>(bytes, t.i);
      break;
    case DType::kU16:
      Load<uint16_t>(bytes, t.i);
      break;
    case DType::kU8:
    case DType::kBool:
      Load<uint8_t>(bytes, t.i);
      break;
    default:
      for (size_t k = 0; k < t.f.size(); ++k) {
        if (ByteWidth(type.dtype) == 2) {
          uint16_t bits;
          std::memcpy(&bits, static_cast<const char*>(bytes) + 2 * k, 2);
          t.f[k] = BitsToFloat16(type.dtype, bits);
        } else {
          t.f[k] = BitsToFloat8(type.dtype, static_cast<const uint8_t*>(bytes)[k]);
        }
      }
  }
  return t;
}

Tensor HalfOf(const Tensor& whole, DType dtype) {
  Tensor half(Type{dtype, whole.type.shape});
  for (int64_t k = 0; k < whole.size(); ++k) {
    const auto v = static_cast<float>(whole.f[k]);
    dtype == DType::kU16 ? half.SetInt(k, LowHalf(v))
                         : half.Set(k, BitsToFloat16(dtype, HighHalf(v)));
  }
  return half;
}

Index::Index(Dims shape) : shape_(std::move(shape)), at_(shape_.size(), 0) {
  for (const int64_t d : shape_) done_ = done_ || d == 0;
}

void Index::Next() {
  for (int k = static_cast<int>(shape_.size()) - 1; k >= 0; --k) {
    if (++at_[k] < shape_[k]) return;
    at_[k] = 0;
  }
  done_ = true;
}

int64_t Index::Dot(const Dims& strides) const {
  int64_t sum = 0;
  for (size_t k = 0; k < at_.size(); ++k) sum += at_[k] * strides[k];
  return sum;
}

}  // namespace stator
