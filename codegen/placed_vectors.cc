#include "codegen/placed_vectors.h"

#include "codegen/kernel_text.h"
#include "ir/base/str.h"

namespace stator {

int64_t PlacedVectors::Bytes(bool alike) const {
  int64_t total = 0;
  for (const auto& p : emitter_.placed_vectors()) total += p.alike == alike ? RowBytes(p.bytes) : 0;
  return total;
}

// fn(vector, text of its place).
template <typename Fn>
void PlacedVectors::ForEach(const std::string& row, const Fn& fn) const {
  int64_t offset[2] = {0, 0};
  for (const auto& p : emitter_.placed_vectors()) {
    fn(p, StrCat("st_place<", p.type, ", ", vectors_, ">(", p.alike ? "st_shared" : row, " + ",
                 offset[p.alike], ", e)"));
    offset[p.alike] += RowBytes(p.bytes);
  }
}

std::string PlacedVectors::Place(const ElementEmitter::PlacedVector& vector,
                                 const std::string& row) const {
  std::string out;
  ForEach(row, [&](const auto& p, const std::string& place) {
    out = p.name == vector.name ? place : out;
  });
  return out;
}

std::string PlacedVectors::Places(bool alike, const std::string& row) const {
  std::string text;
  ForEach(row, [&](const auto& p, const std::string& place) {
    if (p.alike == alike) text += StrCat("const auto ", p.name, " = ", place, ";\n");
  });
  return text;
}

std::string PlacedVectors::Reads(const std::string& text, const std::string& row) const {
  std::string out;
  ForEach(row, [&](const auto& p, const std::string& place) {
    if (Mentions(text, p.name)) out += StrCat("const auto ", p.name, " = ", place, ".get();\n");
  });
  return out;
}

}  // namespace stator
