// Tensor: the handle a model's author computes with. It names one value of a model's graph, with
// the scope that ops on it belong to.
//
// An op's node takes the scope of the operand whose handle was made last. Layers move their
// operands into their own scope (`x.In(s)`) and hand back results in the parent scope, so that the
// addition in `x + Mlp(s / "mlp", x, c)` belongs to `s`. There is no current scope and no current
// graph.
#pragma once

#include "ir/builder.h"

#include <concepts>
#include <initializer_list>
#include <string>
#include <vector>

namespace stator::dsl {

using stator::AttrMap;
using stator::Dims;
using stator::DType;
using stator::Type;

inline constexpr DType kF64 = DType::kF64, kF32 = DType::kF32, kBF16 = DType::kBF16,
                       kF16 = DType::kF16, kI64 = DType::kI64, kI32 = DType::kI32,
                       kU32 = DType::kU32, kBool = DType::kBool;

// The line of the user's program that an error names. std::source_location, which Clang 14 lacks.
struct Location {
  const char* file = "";
  int line = 0;  // 0: unknown
  static constexpr Location current(const char* file = __builtin_FILE(),
                                    int line = __builtin_LINE()) {
    return {file, line};
  }
};

class Model;
class Scope;

class Tensor {
 public:
  Tensor() = default;  // refers to nothing

  bool defined() const { return model_ != nullptr; }
  Value value() const { return value_; }
  Model& model() const;
  const Dims& shape() const { return value().shape(); }
  DType dtype() const { return value().dtype(); }
  int rank() const { return value().type().rank(); }
  int64_t dim(int axis) const;  // negative axes count from the end; throws out of range
  int64_t size() const { return value().type().NumElements(); }
  Scope scope() const;
  bool MadeAfter(const Tensor& other) const { return order_ > other.order_; }

  // The same value; ops on it from now on belong to `scope`.
  Tensor In(const Scope& scope) const;

  // Shorthand for the functions of frontend/dsl/ops.h.
  Tensor Cast(DType to, Location loc = Location::current()) const;
  Tensor Reshape(const Dims& shape, Location loc = Location::current()) const;
  Tensor Transpose(const Dims& permutation, Location loc = Location::current()) const;
  Tensor Slice(int64_t axis, int64_t start, int64_t limit,
               Location loc = Location::current()) const;

 private:
  friend class Model;
  friend class Scope;
  Value value_;
  Model* model_ = nullptr;
  int scope_ = 0;  // of the model's table
  int order_ = 0;  // handles made later have larger ones
};

using Tensors = std::vector<Tensor>;

// An operand of an operator: a tensor, or a number that takes the other operand's dtype. Notes the
// line it was written on.
struct Operand {
  Operand(const Tensor& t, Location l = Location::current()) : tensor(t), loc(l) {}
  template <typename T>
  requires std::integral<T> || std::floating_point<T> Operand(T v, Location l = Location::current())
      : number(static_cast<double>(v)), loc(l) {}

  Tensor tensor;
  double number = 0;
  Location loc;
};

// Axes of a reduction; none given means all. Negative ones count from the end.
struct Axes {
  Axes() = default;
  Axes(int64_t axis) : dims{axis} {}
  Axes(int axis) : dims{axis} {}
  Axes(std::initializer_list<int64_t> axes) : dims(axes) {}
  Axes(Dims axes) : dims(std::move(axes)) {}
  Dims dims;
};

}  // namespace stator::dsl
