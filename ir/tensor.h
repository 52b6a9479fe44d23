// A host tensor of the reference interpreter: every element held wide, already rounded to dtype.
#pragma once

#include "ir/type.h"

#include <vector>

namespace stator {

struct Tensor {
  Tensor() = default;
  explicit Tensor(Type t);

  Type type;
  // Floats live in `f`, integers and bool in `i`; the other is empty.
  std::vector<double> f;
  std::vector<int64_t> i;

  int64_t size() const { return type.NumElements(); }
  double Get(int64_t k) const { return f.empty() ? static_cast<double>(i[k]) : f[k]; }
  // Rounds to the dtype.
  void Set(int64_t k, double v);
  void SetInt(int64_t k, int64_t v);
  // Set or SetInt, by the type of `v`.
  void Put(int64_t k, double v) { Set(k, v); }
  void Put(int64_t k, int64_t v) { SetInt(k, v); }
  void Put(int64_t k, bool v) { SetInt(k, v); }

  // The dense bytes of the dtype, as device buffers hold them, and back.
  std::vector<char> ToBytes() const;
  static Tensor FromBytes(const Type& type, const void* bytes);
};

// Half of every f32 of `whole`: the bf16 (HighHalf) or the u16 (LowHalf), by `dtype`.
Tensor HalfOf(const Tensor& whole, DType dtype);

// Odometer over a shape in row-major order.
// for (Index it(shape); !it.done(); it.Next()) use it[0], it[1], ...
class Index {
 public:
  explicit Index(Dims shape);
  bool done() const { return done_; }
  void Next();
  int64_t operator[](int axis) const { return at_[axis]; }
  const Dims& at() const { return at_; }
  int64_t Dot(const Dims& strides) const;

 private:
  Dims shape_, at_;
  bool done_ = false;
};

}  // namespace stator
