#include "tests/support/product_graphs.h"

#include "ir/base/str.h"
#include "ir/text.h"

namespace stator {
namespace {

std::string Of(const char* dtype, int64_t rows, int64_t columns) {
  return StrCat(dtype, "[", rows, ",", columns, "]");
}

// Both the product and what is made of it are wanted, as a training step keeps them.
std::string Gate(int64_t m, int64_t n, int64_t k) {
  const std::string half = Of("bf16", m, n), full = Of("f32", m, n);
  return StrCat("graph @gate(%x: ", Of("bf16", m, k), ", %w: ", Of("bf16", n, k), ", %b: f32[", n,
                "]) -> (", half, ", ", half, ") {\n",
                "  %0 = matmul(%x, %w) {out=bf16, transpose_b=true} : ", half,
                "\n  %1 = cast(%0) {to=f32} : ", full, "\n  %2 = broadcast(%b) {shape=[", m, ",", n,
                "]} : ", full, "\n  %3 = add(%1, %2) : ", full, "\n  %4 = sigmoid(%3) : ", full,
                "\n  %5 = mul(%3, %4) : ", full, "\n  %6 = cast(%5) {to=bf16} : ", half,
                "\n  return %0, %6\n}\n");
}

std::string Residual(int64_t m, int64_t n, int64_t k) {
  const std::string half = Of("bf16", m, n);
  return StrCat("graph @residual(%x: ", Of("bf16", m, k), ", %w: ", Of("bf16", k, n),
                ", %y: ", half, ") -> ", half, " {\n", "  %0 = matmul(%x, %w) {out=bf16} : ", half,
                "\n  %1 = add(%0, %y) : ", half, "\n  return %1\n}\n");
}

std::string Gradient(int64_t m, int64_t n, int64_t k) {
  const std::string half = Of("bf16", m, n), full = Of("f32", m, n), row = Of("f32", 1, n);
  return StrCat("graph @gradient(%x: ", Of("bf16", m, k), ", %w: ", Of("bf16", k, n),
                ", %y: ", half, ") -> (", half, ", ", row, ") {\n",
                "  %0 = matmul(%x, %w) {out=bf16} : ", half, "\n  %1 = sigmoid(%y) : ", half,
                "\n  %2 = mul(%0, %1) : ", half, "\n  %3 = cast(%2) {to=f32} : ", full,
                "\n  %4 = sum(%3) {axes=[0]} : ", row, "\n  return %2, %4\n}\n");
}

std::string Alone(int64_t m, int64_t n, int64_t k, bool by_rows) {
  const std::string out = Of("bf16", m, n);
  return StrCat("graph @alone(%x: ", Of("bf16", m, k),
                ", %w: ", by_rows ? Of("bf16", n, k) : Of("bf16", k, n), ") -> ", out,
                " {\n  %0 = matmul(%x, %w) {out=bf16", by_rows ? ", transpose_b=true" : "",
                "} : ", out, "\n  return %0\n}\n");
}

// Both operands are parts of larger ones.
std::string OfParts(int64_t m, int64_t n, int64_t k) {
  const std::string out = Of("bf16", m, n);
  return StrCat("graph @of_parts(%x: ", Of("bf16", m, 2 * k), ", %w: ", Of("bf16", n, 3 * k),
                ") -> ", out, " {\n  %0 = slice(%x) {limits=[", m, ",", 2 * k, "], starts=[0,", k,
                "]} : ", Of("bf16", m, k), "\n  %1 = slice(%w) {limits=[", n, ",", 2 * k,
                "], starts=[0,", k, "]} : ", Of("bf16", n, k),
                "\n  %2 = matmul(%0, %1) {out=bf16, transpose_b=true} : ", out,
                "\n  return %2\n}\n");
}

// B is a state, which the kernel reads ahead.
std::string OfState(int64_t m, int64_t n, int64_t k) {
  const std::string out = Of("bf16", m, n), w = Of("bf16", k, n);
  return StrCat("graph @of_state(%x: ", Of("bf16", m, k), ", %g: ", w, ", state %w: ", w, ") -> ",
                out, " {\n  %0 = sigmoid(%x) : ", Of("bf16", m, k),
                "\n  %1 = matmul(%0, %w) {out=bf16} : ", out, "\n  %2 = add(%w, %g) : ", w,
                "\n  return %1\n  next %w = %2\n}\n");
}

struct Graphs {
  std::vector<ProductGraph> all;
  void Add(const std::string& name, const std::string& text) {
    all.push_back({name, ParseGraph(text)});
  }
};

}  // namespace

std::vector<ProductGraph> SmallProductGraphs() {
  Graphs g;
  g.Add("gate, tiles of 64 x 64", Gate(1024, 512, 128));
  g.Add("gate, tiles of 32 x 32, an odd depth", Gate(96, 96, 144));
  g.Add("residual, four parts", Residual(1024, 128, 512));
  g.Add("residual, tiles of 64 x 32, the least depth", Residual(1024, 256, 16));
  g.Add("gradient, tiles of 64 x 64", Gradient(1024, 512, 128));
  g.Add("gradient, tiles of 64 x 32", Gradient(640, 96, 80));
  g.Add("alone, by rows", Alone(1024, 128, 384, true));
  g.Add("alone, by columns", Alone(1024, 128, 384, false));
  g.Add("alone, one tile", Alone(32, 32, 272, false));
  g.Add("of parts", OfParts(64, 64, 64));
  return std::move(g.all);
}

std::unique_ptr<Graph> SmallProductOfState() { return ParseGraph(OfState(1024, 128, 256)); }

std::vector<ProductGraph> ProductGraphs() {
  Graphs g;
  const auto add = [&](const std::string& name, const std::string& text) { g.Add(name, text); };
  add("gate, tiles of 192", Gate(512, 384, 128));
  add("gate, odd rows", Gate(333, 192, 72));
  add("gate, a part of a tile of 128", Gate(77, 320, 200));
  add("residual", Residual(256, 256, 64));
  add("residual, odd rows", Residual(1001, 192, 136));
  add("residual, one row", Residual(1, 64, 8));
  add("gradient", Gradient(640, 256, 136));
  add("gradient, several turns", Gradient(33024, 128, 64));
  return std::move(g.all);
}

}  // namespace stator
