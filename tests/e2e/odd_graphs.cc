#include "tests/e2e/odd_graphs.h"

#include "ir/base/str.h"
#include "ir/text.h"

namespace stator {
namespace {

// `text` with $T, $R, $C (a dtype, rows, columns) put in for every entry of `sizes`.
struct Pattern {
  const char* name;
  const char* text;
  std::vector<const char*> dtypes;
  std::vector<std::pair<int, int>> sizes;
};

// Row sums, column sums and what follows the row sums in one kernel, over pieces of 64 rows.
constexpr const char* kRowsAndColumns =
    R"(graph @f(%x: $T[$R,$C], %y: $T[$R,$C]) -> ($T[$R,$C], f32[1,$C], f32[1,$C], f32[$R,1]) {
  %0 = cast(%x) {to=f32} : f32[$R,$C]
  %1 = cast(%y) {to=f32} : f32[$R,$C]
  %2 = mul(%0, %1) : f32[$R,$C]
  %3 = sum(%2) {axes=[1]} : f32[$R,1]
  %4 = broadcast(%3) {shape=[$R,$C]} : f32[$R,$C]
  %5 = sub(%1, %4) : f32[$R,$C]
  %6 = cast(%5) {to=$T} : $T[$R,$C]
  %7 = sum(%2) {axes=[0]} : f32[1,$C]
  %8 = sum(%5) {axes=[0]} : f32[1,$C]
  return %6, %7, %8, %3
})";

const std::vector<Pattern>& Patterns() {
  static const std::vector<Pattern> kPatterns = {
      {"rows_and_columns",
       kRowsAndColumns,
       {"f32", "bf16", "f16"},
       {{67, 100},
        {1, 512},
        {640, 768},
        {1024, 128},
        {640, 72},
        {130, 1600},
        {1000, 2048},
        {9, 5},
        {64, 1},
        {3, 2049}}},
      // Pieces for all multiprocessors; in the second, several lanes of a column after each other.
      {"rows_and_columns_of_many_rows", kRowsAndColumns, {"f32", "bf16"}, {{4100, 264}}},
      {"rows_and_columns_of_many_long_rows", kRowsAndColumns, {"bf16"}, {{4100, 1032}}},
      // A row statistic of a row statistic: three sweeps.
      {"three_sweeps",
       R"(graph @f(%x: $T[$R,$C]) -> ($T[$R,$C], $T[$R,1]) {
  %0 = max(%x) {axes=[1]} : $T[$R,1]
  %1 = broadcast(%0) {shape=[$R,$C]} : $T[$R,$C]
  %2 = sub(%x, %1) : $T[$R,$C]
  %3 = mul(%2, %2) : $T[$R,$C]
  %4 = sum(%3) {axes=[1]} : $T[$R,1]
  %5 = add(%4, %0) : $T[$R,1]
  %6 = broadcast(%5) {shape=[$R,$C]} : $T[$R,$C]
  %7 = sub(%3, %6) : $T[$R,$C]
  %8 = min(%7) {axes=[1]} : $T[$R,1]
  %9 = broadcast(%8) {shape=[$R,$C]} : $T[$R,$C]
  %10 = add(%2, %9) : $T[$R,$C]
  return %10, %8
})",
       {"f32", "bf16"},
       {{5, 8193}, {2, 70001}, {33, 250}, {7, 1023}, {300, 12}, {4, 1}, {1, 6}}},
      // Rows of which each lies in one of two tensors.
      {"rows_of_parts",
       R"(graph @f(%x: $T[1,$R,$C], %y: $T[1,$R,$C], %z: $T[2,$R,$C]) -> ($T[2,$R,$C], f32[1,1,$C]) {
  %0 = concat(%x, %y) {axis=0} : $T[2,$R,$C]
  %1 = cast(%0) {to=f32} : f32[2,$R,$C]
  %2 = cast(%z) {to=f32} : f32[2,$R,$C]
  %3 = mul(%1, %2) : f32[2,$R,$C]
  %4 = sum(%3) {axes=[2]} : f32[2,$R,1]
  %5 = broadcast(%4) {shape=[2,$R,$C]} : f32[2,$R,$C]
  %6 = sub(%1, %5) : f32[2,$R,$C]
  %7 = cast(%6) {to=$T} : $T[2,$R,$C]
  %8 = sum(%3) {axes=[0,1]} : f32[1,1,$C]
  return %7, %8
})",
       {"f32", "bf16"},
       {{33, 100}, {2100, 264}, {5, 7}, {64, 768}}},
      // Rows of a vocabulary's length, folded without a tree, as many as the rows of a whole block.
      {"long_rows",
       R"(graph @f(%x: $T[$R,$C], %w: f32[$R,1]) -> ($T[$R,$C], f32[$R,1]) {
  %0 = cast(%x) {to=f32} : f32[$R,$C]
  %1 = online_logsumexp(%0) {axes=[1]} : f32[$R,1]
  %2 = broadcast(%1) {shape=[$R,$C]} : f32[$R,$C]
  %3 = exp_sub(%0, %2) : f32[$R,$C]
  %4 = cast(%3) {to=$T} : $T[$R,$C]
  %5 = mul(%1, %w) : f32[$R,1]
  return %4, %5
})",
       {"bf16"},
       {{70, 16400}, {66, 16385}, {3, 65536}}},
      // Several outputs of different dtypes from one kernel.
      {"outputs_of_every_kind",
       R"(graph @f(%x: $T[$R,$C], %y: $T[$R,$C]) -> (bool[$R,$C], i64[$R,$C], f16[$R,$C], f8e4m3[$R,$C], f8e5m2[$R,$C], u8[$R,$C], bool[$R,1]) {
  %0 = less(%x, %y) : bool[$R,$C]
  %1 = add(%x, %y) : $T[$R,$C]
  %2 = cast(%1) {to=i64} : i64[$R,$C]
  %3 = cast(%1) {to=f16} : f16[$R,$C]
  %4 = cast(%1) {to=f8e4m3} : f8e4m3[$R,$C]
  %5 = cast(%1) {to=f8e5m2} : f8e5m2[$R,$C]
  %6 = cast(%2) {to=u8} : u8[$R,$C]
  %7 = any(%0) {axes=[1]} : bool[$R,1]
  return %0, %2, %3, %4, %5, %6, %7
})",
       {"f32", "bf16"},
       {{64, 128}, {33, 77}, {9001, 1}, {1, 3}}},
      // Parts that are broadcast or computed, of odd widths, and a row sum over the whole.
      {"concatenation_in_a_row",
       R"(graph @f(%a: $T[1], %b: $T[$R,3], %x: $T[$R,$C]) -> ($T[$R,1], f32[$R,2]) {
  %0 = reshape(%a) {shape=[1,1]} : $T[1,1]
  %1 = broadcast(%0) {shape=[$R,2]} : $T[$R,2]
  %2 = concat(%1, %b, %x) {axis=1} : $T[$R,$C5]
  %3 = add(%2, %2) : $T[$R,$C5]
  %4 = sum(%3) {axes=[1]} : $T[$R,1]
  %5 = slice(%3) {starts=[0,1], limits=[$R,3]} : $T[$R,2]
  %6 = cast(%5) {to=f32} : f32[$R,2]
  return %4, %6
})",
       {"f32", "bf16"},
       {{64, 251}, {3, 1}, {17, 1019}, {5, 8188}}},
      // Halves swapped and negated, as rotary embeddings do.
      {"rotated_halves",
       R"(graph @f(%x: $T[$R,$C,2], %c: $T[$C,2]) -> $T[$R,$C,2] {
  %0 = slice(%x) {starts=[0,0,0], limits=[$R,$C,1]} : $T[$R,$C,1]
  %1 = slice(%x) {starts=[0,0,1], limits=[$R,$C,2]} : $T[$R,$C,1]
  %2 = neg(%1) : $T[$R,$C,1]
  %3 = concat(%2, %0) {axis=2} : $T[$R,$C,2]
  %4 = broadcast(%c) {shape=[$R,$C,2]} : $T[$R,$C,2]
  %5 = mul(%3, %4) : $T[$R,$C,2]
  %6 = add(%5, %x) : $T[$R,$C,2]
  return %6
})",
       {"f32", "bf16"},
       {{9, 512}, {5, 33}, {1, 1}}},
      // Windows of a packed tensor at odd offsets, added and joined again the other way round.
      {"packed_windows",
       R"(graph @f(%x: $T[$R,3,$C]) -> ($T[$R,3,$C], f32[1,3,$C]) {
  %0 = slice(%x) {starts=[0,0,0], limits=[$R,1,$C]} : $T[$R,1,$C]
  %1 = slice(%x) {starts=[0,1,0], limits=[$R,2,$C]} : $T[$R,1,$C]
  %2 = slice(%x) {starts=[0,2,0], limits=[$R,3,$C]} : $T[$R,1,$C]
  %3 = mul(%0, %1) : $T[$R,1,$C]
  %4 = sub(%2, %0) : $T[$R,1,$C]
  %5 = concat(%4, %3, %1) {axis=1} : $T[$R,3,$C]
  %6 = cast(%5) {to=f32} : f32[$R,3,$C]
  %7 = sum(%6) {axes=[0]} : f32[1,3,$C]
  return %5, %7
})",
       {"f32", "bf16"},
       {{70, 24}, {3, 7}, {129, 100}, {1, 1}}},
      // Zeros around and between, read by a sum along rows and by one along columns.
      {"padding",
       R"(graph @f(%x: $T[$R,$C], %y: $T[$R1,$C3]) -> ($T[$R1,1], f32[1,$C3]) {
  %0 = neg(%x) : $T[$R,$C]
  %1 = pad(%0) {low=[1,2], high=[0,1], value=1.5} : $T[$R1,$C3]
  %2 = add(%1, %y) : $T[$R1,$C3]
  %3 = sum(%2) {axes=[1]} : $T[$R1,1]
  %4 = cast(%2) {to=f32} : f32[$R1,$C3]
  %5 = sum(%4) {axes=[0]} : f32[1,$C3]
  return %3, %5
})",
       {"f32", "bf16"},
       {{63, 253}, {5, 4}, {200, 1021}, {1, 1}}},
      // An embedding with positions under a norm's sums; the table is narrower than a vector or
      // not.
      {"gathered_rows",
       R"(graph @f(%w: $T[50,$C], %t: i32[$R], %p: $T[$R,$C]) -> ($T[$R,$C], $T[$R,1], f32[1,$C]) {
  %0 = gather(%w, %t) {axis=0} : $T[$R,$C]
  %1 = add(%0, %p) : $T[$R,$C]
  %2 = sum(%1) {axes=[1]} : $T[$R,1]
  %3 = broadcast(%2) {shape=[$R,$C]} : $T[$R,$C]
  %4 = sub(%1, %3) : $T[$R,$C]
  %5 = cast(%1) {to=f32} : f32[$R,$C]
  %6 = sum(%5) {axes=[0]} : f32[1,$C]
  return %4, %2, %6
})",
       {"f32", "bf16"},
       {{64, 128}, {31, 77}, {3, 2050}, {200, 3}}},
      // The target's logit against its row's maximum; the pick stays in the row's kernel.
      {"picked_along_rows",
       R"(graph @f(%x: $T[$R,$C], %t: i32[$R,1]) -> ($T[$R,1], $T[$R,$C]) {
  %0 = max(%x) {axes=[1]} : $T[$R,1]
  %1 = take_along(%x, %t) {axis=1} : $T[$R,1]
  %2 = sub(%1, %0) : $T[$R,1]
  %3 = iota() {shape=[$R,$C], axis=1, dtype=i32} : i32[$R,$C]
  %4 = broadcast(%t) {shape=[$R,$C]} : i32[$R,$C]
  %5 = equal(%3, %4) : bool[$R,$C]
  %6 = broadcast(%2) {shape=[$R,$C]} : $T[$R,$C]
  %7 = select(%5, %6, %x) : $T[$R,$C]
  return %2, %7
})",
       {"f32", "bf16"},
       {{64, 256}, {5, 8193}, {7, 11}, {3, 1}}},
      // Read across a transpose: once, by a row sum, and by the sum along columns.
      {"across_a_transpose",
       R"(graph @f(%x: $T[$R,$C]) -> ($T[$C,$R], $T[$C,1], f32[1,$R]) {
  %0 = neg(%x) : $T[$R,$C]
  %1 = transpose(%0) {permutation=[1,0]} : $T[$C,$R]
  %2 = add(%1, %1) : $T[$C,$R]
  %3 = sum(%2) {axes=[1]} : $T[$C,1]
  %4 = cast(%2) {to=f32} : f32[$C,$R]
  %5 = sum(%4) {axes=[0]} : f32[1,$R]
  return %2, %3, %5
})",
       {"f32", "bf16"},
       {{64, 96}, {33, 65}, {1, 700}, {700, 1}}},
      // Random bits are a function of the position, wherever they are drawn.
      {"masks_in_rows",
       R"(graph @f(%x: $T[$R,$C], %s: u32[2], %k: i64[]) -> ($T[$R,$C], $T[$R,1]) {
  %0 = dropout(%x, %s, %k) {rate=0.25, stream=3} : $T[$R,$C]
  %1 = sum(%0) {axes=[1]} : $T[$R,1]
  %2 = broadcast(%1) {shape=[$R,$C]} : $T[$R,$C]
  %3 = add(%0, %2) : $T[$R,$C]
  return %3, %1
})",
       {"f32", "bf16"},
       {{64, 128}, {7, 1001}, {3, 3}}},
      // Axes of size 1 anywhere; sums over them only widen and round.
      {"axes_of_one",
       R"(graph @f(%x: $T[1,$R,1,$C,1]) -> ($T[1,$R,1,$C,1], $T[1,1,1,$C,1], $T[1,$R,1,1,1], $T[1,1,1,1,1]) {
  %0 = sum(%x) {axes=[0,2,4]} : $T[1,$R,1,$C,1]
  %1 = sum(%x) {axes=[0,1]} : $T[1,1,1,$C,1]
  %2 = sum(%x) {axes=[2,3]} : $T[1,$R,1,1,1]
  %3 = sum(%x) {axes=[0,1,2,3,4]} : $T[1,1,1,1,1]
  return %0, %1, %2, %3
})",
       {"f32", "bf16"},
       {{5, 7}, {1, 300}, {300, 1}, {1, 1}}},
      // A table's gradient from a head and from look-ups, added up in place; ids of more than one
      // sort.
      {"shared_table",
       R"(graph @f(%d: bf16[$R,40], %h: bf16[$R,$C], %u: $T[$R,$C]) -> ($T[40,$C]) {
  %0 = matmul(%d, %h) {transpose_a=true} : f32[40,$C]
  %1 = iota() {axis=0, shape=[$R]} : i32[$R]
  %2 = constant() {dtype=i32, value=37.0} : i32[]
  %3 = broadcast(%2) {shape=[$R]} : i32[$R]
  %4 = minimum(%1, %3) : i32[$R]
  %5 = segment_sum(%u, %4) {rows=40} : f32[40,$C]
  %6 = add(%0, %5) : f32[40,$C]
  return %6
})",
       {"f32"},
       {{5, 8}, {70, 24}, {3000, 8}}},
      // Parts of one size, stored side by side for a product; and a concat that a kernel reads on.
      {"assembled",
       R"(graph @f(%a: $T[$R,$C], %b: $T[$R,$C], %w: $T[$C,3]) -> (f32[$R,3], $T[$R,$C]) {
  %0 = mul(%a, %b) : $T[$R,$C]
  %1 = add(%a, %b) : $T[$R,$C]
  %2 = concat(%0, %1) {axis=0} : $T[$R2,$C]
  %3 = matmul(%2, %w) : f32[$R2,3]
  %4 = slice(%3) {limits=[$R,3], starts=[0,0]} : f32[$R,3]
  return %4, %1
})",
       {"f32", "bf16"},
       {{5, 7}, {33, 64}}},
      // Statistics of rows side by side: parts of one element a row are not what the rows' kernel
      // stores.
      {"assembled_of_rows",
       R"(graph @f(%x: $T[$R,$C]) -> ($T[$R2,1], $T[$R,1]) {
  %0 = sum(%x) {axes=[1]} : $T[$R,1]
  %1 = neg(%0) : $T[$R,1]
  %2 = mul(%0, %0) : $T[$R,1]
  %3 = concat(%1, %2) {axis=0} : $T[$R2,1]
  return %3, %1
})",
       {"f32", "bf16"},
       {{64, 128}, {33, 2100}}},
      // Nothing to do, but results to give.
      {"empty_operands",
       R"(graph @f(%x: $T[0,$C], %y: $T[$R,$C]) -> ($T[$R,$C], $T[1,$C], $T[0,1]) {
  %0 = concat(%x, %y) {axis=0} : $T[$R,$C]
  %1 = sum(%x) {axes=[0]} : $T[1,$C]
  %2 = sum(%x) {axes=[1]} : $T[0,1]
  return %0, %1, %2
})",
       {"f32", "bf16"},
       {{5, 7}}},
  };
  return kPatterns;
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace

std::vector<std::pair<std::string, std::unique_ptr<Graph>>> OddGraphs() {
  std::vector<std::pair<std::string, std::unique_ptr<Graph>>> graphs;
  for (const Pattern& p : Patterns()) {
    for (const std::string dtype : p.dtypes) {
      for (const auto& [r, c] : p.sizes) {
        std::string text = Replaced(StrCat(p.text, "\n"), "$T", dtype);
        // Longest first: "$C5" is five more than "$C".
        const std::pair<const char*, int> counts[] = {
            {"$C5", c + 5}, {"$C3", c + 3}, {"$R1", r + 1}, {"$R2", 2 * r}, {"$C", c}, {"$R", r}};
        for (const auto& [name, count] : counts) text = Replaced(text, name, StrCat(count));
        graphs.emplace_back(StrCat(p.name, " ", dtype, "[", r, ",", c, "]"), ParseGraph(text));
      }
    }
  }
  return graphs;
}

}  // namespace stator
