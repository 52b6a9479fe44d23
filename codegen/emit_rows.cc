// Rows, and rows that are folded along columns too, for CUDA. The latter come one after the other;
// emit_ring.cc has them where they are many.
#include "codegen/emit_region.h"
#include "codegen/row_writer.h"
#include "codegen/scalar.h"

#include <algorithm>

namespace stator {
namespace {

class RowsWriter : public RowWriter {
 public:
  explicit RowsWriter(const RegionParts& parts) : RowWriter(parts, RowLoads::kHere) {}

  EmittedKernel Write() { return Kernel(space_.kind == SpaceKind::kRow ? Rows() : RowColumns()); }

 private:
  std::string Rows() {
    const RowShape shape = ShapeOfRows();
    const int64_t rows = space_.rows(), chunks = space_.chunks();
    grid_ = (rows + shape.y - 1) / shape.y;
    block_ = static_cast<int>(shape.p * shape.y);
    may_be_dead_ = rows % shape.y != 0;
    IndexSpace& vars = emitter_.vars();
    emitter_.SetOptions(Base(1, {}));
    const IndexExpr row = vars.AddVar("r", rows, kInvariant);
    IndexExpr start = row * space_.n;
    std::string bound;
    if (chunks > 1) {
      const IndexExpr b = vars.Mod(row, chunks);
      start = vars.Div(row, chunks) * space_.n + b * space_.chunk;
      if (space_.n % space_.chunk != 0) {
        bound = StrCat("((", vars.Text(b), ") + 1 < ", chunks, " ? ", space_.chunk, " : ",
                       space_.n - (chunks - 1) * space_.chunk, ")");
      }
    }
    const std::string sweeps = Sweeps(shape, start, row, bound);
    const std::string head =
        Threads(shape) +
        DefineRow("", StrCat("(idx_t)blockIdx.x * ", shape.y, " + y"), StrCat("r0 < ", rows), rows);
    return Indent(head + sweeps, 2);
  }

  // Rows that a thread's column lane has at once. Few blocks leave a GPU idle while each waits for
  // its rows one after another, so their rows are taken side by side, and put in order in shared
  // memory.
  int64_t RowsAtOnce(const RowShape& shape) const {
    if (space_.chunks() >= kManyBlocks || shape.k != 1 || space_.n % space_.chunk != 0) return 1;
    const std::string op = FoldOp(*parts_.column_folds[0]);
    for (const Node* f : parts_.column_folds) {
      if (FoldOp(*f) != op || ByteWidth(f->type().dtype) > 4) return 1;
    }
    int64_t rows = 8;
    while (rows > 1 && (shape.p * 8 * rows > 1024 || space_.chunk % (8 * rows) != 0)) rows /= 2;
    return rows;
  }

  std::string RowColumns() {
    RowShape shape = ShapeOfRows();
    const int64_t at_once = RowsAtOnce(shape), lanes = std::max<int64_t>(1, shape.v / at_once);
    shape.y *= at_once;
    grid_ = space_.chunks();
    block_ = static_cast<int>(shape.p * shape.y);
    // Two blocks hide each other's latencies, if there are registers for them.
    blocks_ = block_ <= 256 ? 2 : 1;
    const int64_t rows = (space_.chunk + shape.y - 1) / shape.y;
    may_be_dead_ = space_.n % space_.chunk != 0 || space_.chunk % 8 != 0;
    IndexSpace& vars = emitter_.vars();
    emitter_.SetOptions(Base(1, {}));
    const IndexExpr row = vars.AddVar("r", space_.n, kInvariant);
    const std::string sweeps = Sweeps(shape, row * space_.inner, row, "");
    std::string declare, add, declare_lanes, finish;
    for (size_t k = 0; k < parts_.column_folds.size(); ++k) {
      Node* f = parts_.column_folds[k];
      const std::string g = StrCat("g", k), h = StrCat("h", k), op = FoldOp(*f),
                        out = args_.Write(f->result());
      const std::string type = ComputeCType(f->type().dtype);
      const std::string to = StrCat(out, " + (idx_t)blockIdx.x * ", space_.inner);
      const bool partial = shape.k * shape.p * shape.v > space_.inner;
      declare += DeclareColumns(shape, k) + ResetColumns(shape, k);
      if (at_once == 1) {
        finish +=
            Unrolled("c", shape.k,
                     StoreColumns(op, shape.p, shape.v, g + "[c]",
                                  StrCat("c * ", shape.p * shape.v), space_.inner, partial, to));
        continue;
      }
      const std::string shapes = StrCat("<", op, ", ", shape.p, ", ", shape.v, ", ", at_once, ">(");
      declare_lanes += StrCat(type, " ", h, "[", lanes, "];\n",
                              Unrolled("q", lanes, StrCat(h, "[q] = ", op, "::identity();\n")));
      add += StrCat("st_add_columns", shapes, g, "[0], ", h, ", t, y);\n");
      finish += StrCat("{\n  const auto total = st_fold_added_columns", shapes, h,
                       ", t, y);\n  const idx_t j = y * ", shape.p, " + t;\n  if (j < ",
                       space_.inner, ") st_put(", to, " + j, total);\n}\n");
    }
    std::string head = DefineRow(StrCat("i8 = i * ", shape.y, " + y, "),
                                 StrCat("(idx_t)blockIdx.x * ", space_.chunk, " + i8"),
                                 StrCat("i8 < ", space_.chunk, " && r0 < ", space_.n), space_.n);
    if (at_once > 1) head = declare + head;
    return Indent(
        StrCat(Threads(shape), at_once > 1 ? declare_lanes : declare, "for (int i = 0; i < ", rows,
               "; ++i) {\n", Indent(head + sweeps + add, 2), "}\n", finish),
        2);
  }
};

}  // namespace

EmittedKernel EmitRows(const RegionParts& parts) { return RowsWriter(parts).Write(); }

}  // namespace stator
