// The kernel of a region with a matrix product: the product's loop is the text of
// codegen/matmul_text.h, what the region computes from it is its epilogue, emitted element by
// element as for any other kernel.
//
// A thread holds 8 neighbouring columns of UNITS rows in each GROUP of 32 columns: group by group,
// it takes the products, rounded as the graph says, and computes and stores vectors of 8. What it
// loads is on its way two groups ahead: for the first two while the tile is multiplied, which also
// sends the rest to the L2.
//
// The size of a tile was measured on an H200 (docs/notes/own-matmul.md): 192 columns, or 128 where
// the epilogue needs registers of its own.
#include "codegen/emit_region.h"
#include "codegen/matmul_text.h"
#include "codegen/scalar.h"
#include "ir/base/error.h"
#include "ir/views.h"

#include <algorithm>

namespace stator {
namespace {

constexpr int64_t kVector = 8;
constexpr int kUnits = kTileRows / 32;
constexpr int kAhead = 2;  // groups

class MatMulWriter {
 public:
  explicit MatMulWriter(const RegionParts& parts)
      : parts_(parts),
        product_(*parts.product),
        emitter_(args_),
        m_(product_.type().shape[0]),
        n_(product_.type().shape[1]),
        k_(product_.operand(0).shape()[1]),
        by_rows_(product_.view().Bool("transpose_b")),
        chunk_(parts.column_folds.empty() ? 0 : parts.space.chunk) {
    STATOR_CHECK(n_ % kTileGroup == 0 && parts.column_folds.size() <= 1 && parts.sweeps == 1,
                 "no way to emit the product ", product_.scope());
  }

  EmittedKernel Write() {
    const std::string epilogue = Epilogue();
    const int columns = loads_ || chunk_ > 0 || n_ % 192 != 0 ? 128 : 192,
              stages = columns == 128 ? 6 : 5;
    const int64_t m_tiles = Tiles(m_, kTileRows * kTileCluster), n_tiles = Tiles(n_, columns);
    EmittedKernel kernel;
    kernel.shared_bytes = TileBytes(columns, stages, static_cast<int>(chunk_));
    kernel.body = StrCat(
        "extern \"C\" __global__ void __cluster_dims__(", kTileCluster,
        ", 1, 1) __launch_bounds__(", kTileThreads, ", 1) ", kKernelName,
        "(const __grid_constant__ st_tensor_map a, const __grid_constant__ st_tensor_map b, ",
        args_.Declaration(), ") {\n  st_begin();\n  typedef ",
        parts_.wide_index ? "long long" : "int", " idx_t;\n  typedef st_product<", m_, ", ", n_,
        ", ", k_, ", ", columns, ", ", stages, by_rows_ ? ", true" : ", false", ", ", chunk_,
        "> P;\n  static_assert(P::BYTES == ", kernel.shared_bytes, ", \"\");\n",
        Indent(declare_, 2), "  P::run(a, b, [&](int m0, int n0) {\n", Indent(before_, 4),
        "  }, [&](P::Sums& sums, int m0, int n0, const P::Turn& turn) {\n", Indent(epilogue, 4),
        "  });\n}\n");
    kernel.helpers = MatMulText(columns);
    kernel.args = args_.all();
    kernel.maps = {MapOfA(), MapOfB(columns)};
    kernel.grid = m_tiles * n_tiles * kTileCluster;
    kernel.block = kTileThreads;
    kernel.cluster = kTileCluster;
    kernel.persistent = true;
    return kernel;
  }

 private:
  static int64_t Tiles(int64_t n, int64_t size) { return (n + size - 1) / size; }
  std::string Epilogue() {
    const IndexExpr full = BeginEpilogue(emitter_, parts_, kVector, StrCat("[g % ", kAhead, "][u]"),
                                         StrCat("[", kAhead, "][", kUnits, "]"));
    std::string finish;
    for (Node* fold : parts_.column_folds) {
      emitter_.AddLine(kLaneDepth,
                       StrCat("kept[u][v] = ", emitter_.Emit(fold->operand(0), full), ";"));
      finish += StrCat("P::fold<", FoldOp(*fold), ">(kept, g, turn, n0, ",
                       args_.Write(fold->result()), " + (idx_t)(m0 / ", chunk_, ") * ", n_, ");\n");
    }
    const std::string live = m_ % kTileRows == 0 ? "" : StrCat("if (r < ", m_, ") ");
    const std::string column = "const idx_t e = P::vector(n0, g);\n",
                      row = "const idx_t r = P::row(m0, u);\n(void)r;\n";
    const std::string loads = emitter_.TakeEarlyChunk(), arrays = emitter_.TakeEarlyDeclarations();
    const std::string invariant = emitter_.TakeEarlyInvariant() + emitter_.TakeInvariant();
    const std::string chunk = emitter_.TakeChunk(), lanes = emitter_.TakeLane(),
                      after = emitter_.TakeAfterLane();
    const std::string compute = chunk + Unrolled("v", StrCat(kVector), lanes) + after;
    loads_ = !loads.empty();
    std::string ahead;
    if (loads_) {
      const std::string load = StrCat(
          "if (P::has(n0, g)) {\n",
          Indent(
              column + Unrolled("u", "P::UNITS", StrCat(row, live, "{\n", Indent(loads, 2), "}\n")),
              2),
          "}\n");
      declare_ = arrays;
      Prefetch();
      before_ += Unrolled("g", StrCat(kAhead), load);
      ahead = StrCat("if (i + ", kAhead, " < P::GROUPS) {\n  const int g = i + ", kAhead, ";\n",
                     Indent(load, 2), "}\n");
    }
    const std::string unit = StrCat(row, "float p[", kVector, "];\nP::take(sums, g, u, p);\n", live,
                                    "{\n", Indent(compute, 2), "}\n");
    const std::string group = StrCat(column, invariant, Unrolled("u", "P::UNITS", unit), finish);
    const std::string kept = chunk_ > 0 ? StrCat("float kept[P::UNITS][", kVector, "];\n") : "";
    return Unrolled("i", "P::GROUPS",
                    StrCat("if (P::has(n0, i)) {\n  const int g = i;\n", Indent(kept + group, 2),
                           "}\n", ahead));
  }

  void Prefetch() {
    for (size_t i = 0; i < args_.all().size(); ++i) {
      const KernelArg& arg = args_.all()[i];
      const bool whole = arg.value.type().NumElements() == product_.type().NumElements();
      if (whole && !arg.write && arg.first == 0)
        before_ += StrCat("P::prefetch(a", i, ", m0, n0);\n");
    }
  }

  // Strides of a row and of an element in it, in elements.
  int64_t RowStride(Value v) const { return ResolveView(v).strides[0]; }

  // [M, K]; for folds, 32 neighbouring rows to a warp: of a tile's row 64 h + 16 w + i the place is
  // 32 w + 16 h + i.
  EmittedMap MapOfA() const {
    const Value a = product_.operand(0);
    const int64_t s = RowStride(a);
    if (chunk_ == 0) return {a, {m_, k_}, {s, 1}, {kTileRows, kTileDepth}};
    return {a,
            {m_ / kTileRows, 2, 4, 16, k_},
            {kTileRows * s, 16 * s, 32 * s, s, 1},
            {1, 2, 4, 16, kTileDepth}};
  }

  // [N, K] with the rows of every 32 permuted: 8 q + 2 j + i comes to 8 j + 2 q + i. Or [K, N].
  EmittedMap MapOfB(int columns) const {
    const Value b = product_.operand(1);
    const int64_t s = RowStride(b);
    if (!by_rows_) return {b, {k_, n_}, {s, 1}, {kTileDepth / kTileCluster, 64}};
    return {b,
            {n_ / kTileGroup, 4, 4, 2, k_},
            {kTileGroup * s, 2 * s, 8 * s, s, 1},
            {columns / kTileCluster / kTileGroup, 4, 4, 2, kTileDepth}};
  }

  const RegionParts& parts_;
  const Node& product_;
  KernelArgs args_;
  ElementEmitter emitter_;
  std::string declare_, before_;  // what a tile's epilogue will read, sent for ahead of its product
  bool loads_ = false;
  int64_t m_, n_, k_;
  bool by_rows_;   // B is stored as [N, K]
  int64_t chunk_;  // of a fold; 0 without
};

}  // namespace

EmittedKernel EmitMatMul(const RegionParts& parts) { return MatMulWriter(parts).Write(); }

}  // namespace stator
