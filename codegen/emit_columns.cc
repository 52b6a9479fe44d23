// Folds along columns, for CUDA: 32 threads have neighbouring vectors of a row, 8 rows of threads
// the column lanes of ir/reduce_tree.h.
#include "codegen/cuda_writer.h"
#include "codegen/scalar.h"

namespace stator {
namespace {

class ColumnWriter : public CudaWriter {
 public:
  explicit ColumnWriter(const RegionParts& parts) : CudaWriter(parts) {}

  EmittedKernel Write() { return Kernel(Body()); }

 private:
  std::string Body() {
    const int64_t chunks = space_.chunks();
    const auto tiles_of = [&](int64_t v) { return (space_.inner + 32 * v - 1) / (32 * v); };
    int64_t v = Vector({space_.inner});
    // Narrower vectors, and more of them at once, where there would be few blocks.
    while (v > 2 && tiles_of(v) * chunks * space_.outer < kManyBlocks) v /= 2;
    const int64_t tile = 32 * v, tiles = tiles_of(v);
    grid_ = tiles * chunks * space_.outer;
    block_ = 256;
    IndexSpace& vars = emitter_.vars();
    const IndexExpr o = vars.AddVar("o", space_.outer, kInvariant),
                    r = vars.AddVar("r", space_.n, kChunkDepth);
    const IndexExpr lane = vars.AddVar("v", v, kLaneDepth);
    ElementEmitter::Options options = Base(v, lane);
    options.slot = "[u]", options.slots = "[ahead]";
    emitter_.SetOptions(options);
    const IndexExpr j0 = vars.AddVar("e", space_.inner / v, kInvariant) * v;
    const IndexExpr full = (o * space_.n + r) * space_.inner + j0 + lane;
    StoreFull(emitter_, parts_, full);
    std::string declare, finish;
    for (size_t f = 0; f < parts_.column_folds.size(); ++f) {
      Node* fold = parts_.column_folds[f];
      const std::string g = StrCat("g", f), op = FoldOp(*fold);
      const std::string x = emitter_.Emit(fold->operand(0), full);
      emitter_.AddLine(kLaneDepth, StrCat(g, "[v] = ", op, "::of(", g, "[v], ", x, ");"));
      declare += StrCat(ComputeCType(fold->type().dtype), " ", g, "[", v, "];\n",
                        Unrolled("v", v, StrCat(g, "[v] = ", op, "::identity();\n")));
      finish += StoreColumns(
          op, 32, v, g, StrCat("k * ", tile), space_.inner, space_.inner % tile != 0,
          StrCat(args_.Write(fold->result()), " + ((idx_t)o * ", chunks, " + b) * ", space_.inner));
    }
    const std::string invariant = emitter_.TakeEarlyInvariant() + emitter_.TakeInvariant();
    const int64_t ahead =
        Ahead((space_.chunk + 7) / 8, 0, grid_ <= 2 * kManyBlocks ? 8 : kChunksAhead);
    const bool whole = space_.inner % tile == 0;
    std::string count = space_.n % space_.chunk == 0
                            ? StrCat(space_.chunk)
                            : StrCat("(b + 1 < ", chunks, " ? ", space_.chunk, " : ",
                                     space_.n - (chunks - 1) * space_.chunk, ")");
    if (!whole) count = StrCat("inside ? ", count, " : 0");
    const bool even = whole && space_.n % space_.chunk == 0 && space_.chunk % (8 * ahead) == 0;
    const std::string define =
        StrCat("const idx_t i = i0 + u * 8, r = b * ", space_.chunk, " + i;\n(void)r;\n");
    const std::string body = LoadThenCompute("ahead", define, even ? "" : "i < count", v);
    std::string head =
        StrCat("const int t = threadIdx.x % 32, y = threadIdx.x / 32;\n",
               "const idx_t k = blockIdx.x % ", tiles, ", b = blockIdx.x / ", tiles, " % ", chunks,
               ", o = blockIdx.x / ", tiles * chunks, ";\n(void)o;\n");
    head += whole ? "const idx_t e = k * 32 + t;\n"
                  : StrCat("const idx_t e0 = k * 32 + t;\nconst bool inside = e0 * ", v, " < ",
                           space_.inner, ";\nconst idx_t e = inside ? e0 : 0;\n");
    return Indent(
        StrCat(head, "const idx_t count = ", count, ";\n", invariant, declare,
               "for (idx_t i0 = y; i0 < count; i0 += ", 8 * ahead,
               ") {\n  constexpr int ahead = ", ahead, ";\n", Indent(body, 2), "}\n", finish),
        2);
  }
};

}  // namespace

EmittedKernel EmitColumns(const RegionParts& parts) { return ColumnWriter(parts).Write(); }

}  // namespace stator
