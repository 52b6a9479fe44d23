#include "tests/support/product_graphs.h"

#include "ir/base/str.h"
#include "ir/text.h"

namespace stator {
namespace {

std::string Of(const char* dtype, int64_t rows, int64_t columns) { return StrCat(dtype, "[", rows, ",", columns, "]"); }

// Both the product and what is made of it are wanted, as a training step keeps them.
std::string Gate(int64_t m, int64_t n, int64_t k) {
  const std::string half = Of("bf16", m, n), full = Of("f32", m, n);
  return StrCat("graph @gate(%x: ", Of("bf16", m, k), ", %w: ", Of("bf16", n, k), ", %b: f32[", n, "]) -> (", half, ", ", half, ") {\n",
                "  %0 = matmul(%x, %w) {out=bf16, transpose_b=true} : ", half, "\n  %1 = cast(%0) {to=f32} : ", full,
                "\n  %2 = broadcast(%b) {shape=[", m, ",", n, "]} : ", full, "\n  %3 = add(%1, %2) : ", full,
                "\n  %4 = sigmoid(%3) : ", full, "\n  %5 = mul(%3, %4) : ", full, "\n  %6 = cast(%5) {to=bf16} : ", half,
                "\n  return %0, %6\n}\n");
}

std::string Residual(int64_t m, int64_t n, int64_t k) {
  const std::string half = Of("bf16", m, n);
  return StrCat("graph @residual(%x: ", Of("bf16", m, k), ", %w: ", Of("bf16", k, n), ", %y: ", half, ") -> ", half, " {\n",
                "  %0 = matmul(%x, %w) {out=bf16} : ", half, "\n  %1 = add(%0, %y) : ", half, "\n  return %1\n}\n");
}

std::string Gradient(int64_t m, int64_t n, int64_t k) {
  const std::string half = Of("bf16", m, n), full = Of("f32", m, n), row = Of("f32", 1, n);
  return StrCat("graph @gradient(%x: ", Of("bf16", m, k), ", %w: ", Of("bf16", k, n), ", %y: ", half, ") -> (", half, ", ", row, ") {\n",
                "  %0 = matmul(%x, %w) {out=bf16} : ", half, "\n  %1 = sigmoid(%y) : ", half, "\n  %2 = mul(%0, %1) : ", half,
                "\n  %3 = cast(%2) {to=f32} : ", full, "\n  %4 = sum(%3) {axes=[0]} : ", row, "\n  return %2, %4\n}\n");
}

}  // namespace

std::vector<ProductGraph> ProductGraphs() {
  std::vector<ProductGraph> all;
  const auto add = [&](const std::string& name, const std::string& text) { all.push_back({name, ParseGraph(text)}); };
  add("gate, tiles of 192", Gate(512, 384, 128));
  add("gate, odd rows", Gate(333, 192, 72));
  add("gate, a part of a tile of 128", Gate(77, 320, 200));
  add("residual", Residual(256, 256, 64));
  add("residual, odd rows", Residual(1001, 192, 136));
  add("residual, one row", Residual(1, 64, 8));
  add("gradient", Gradient(640, 256, 136));
  add("gradient, several turns", Gradient(33024, 128, 64));
  return all;
}

}  // namespace stator
