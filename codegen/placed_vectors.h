// Vectors that a kernel keeps in dynamic shared memory (`st_shared`), each at a place that only the
// thread itself reads: what `ElementEmitter` names with Options::place.
#pragma once

#include "codegen/element_emitter.h"

#include <cstdint>
#include <string>

namespace stator {

class PlacedVectors {
 public:
  // `vectors`: of a row, or of the part of one that a block has.
  PlacedVectors(const ElementEmitter& emitter, int64_t vectors)
      : emitter_(emitter), vectors_(vectors) {}

  // Bytes of a row of `element_bytes` a vector.
  int64_t RowBytes(int64_t element_bytes) const {
    return (element_bytes * vectors_ + 15) / 16 * 16;
  }
  // Of all vectors that are the same for all rows (`alike`), or of one row's own.
  int64_t Bytes(bool alike) const;
  // The place of vector `e`, an expression.
  std::string Place(const ElementEmitter::PlacedVector& vector, const std::string& row) const;
  // Defines the places of vector `e`; those of a row's own lie behind the
  // pointer `row`.
  std::string Places(bool alike, const std::string& row) const;
  // Reads vector `e` of those that `text` mentions.
  std::string Reads(const std::string& text, const std::string& row) const;

 private:
  template <typename Fn>
  void ForEach(const std::string& row, const Fn& fn) const;

  const ElementEmitter& emitter_;
  int64_t vectors_;
};

}  // namespace stator
