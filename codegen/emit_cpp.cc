// Loop nests for the CPU: OpenMP over rows, chunks or blocks, vectorizable inner loops.
#include "codegen/emit_region.h"
#include "codegen/scalar.h"
#include "ir/base/error.h"
#include "ir/reduce_tree.h"
#include "ir/views.h"

#include <algorithm>
#include <optional>

namespace stator {
namespace {

constexpr int64_t kFlatBlock = 4096;      // elements of a pointwise task
constexpr int64_t kColumnTile = 256;      // columns whose lanes stay in the first-level cache
constexpr int64_t kKeepElements = 16384;  // of a row kept on the stack between sweeps
constexpr int64_t kParallelWork = 16384;  // elements below which threads cost more than they bring

class CppWriter {
 public:
  explicit CppWriter(const RegionParts& parts)
      : parts_(parts), space_(parts.space), emitter_(std::in_place, args_) {}

  EmittedKernel Write() {
    std::string body;
    switch (space_.kind) {
      case SpaceKind::kPointwise:
        body = Pointwise();
        break;
      case SpaceKind::kRow:
        body = Rows();
        break;
      case SpaceKind::kColumn:
        body = Columns();
        break;
      case SpaceKind::kRowColumn:
        body = RowColumns();
        break;
    }
    EmittedKernel kernel;
    kernel.body = StrCat("extern \"C\" void ", kKernelName, "(void* const* args) {\n",
                         "  typedef long long idx_t;\n", args_.Unpacking(), body, "}\n");
    kernel.args = args_.all();
    return kernel;
  }

 private:
  ElementEmitter::Options Base() const {
    ElementEmitter::Options o;
    o.language = Language::kCpp;
    o.space = space_;
    o.inside = parts_.inside;
    return o;
  }

  std::string Parallel(const char* collapse = "") const {
    if (space_.elements() < kParallelWork) return "";
    return StrCat("#pragma omp parallel for schedule(static)", collapse, "\n");
  }

  static std::string Lanes(const std::string& count, const std::string& body) {
    return StrCat("#pragma omp simd\nfor (idx_t v = 0; v < ", count, "; ++v) {\n", Indent(body, 2),
                  "}\n");
  }

  std::string Pointwise() {
    // Flat when every access is; else along the last axis, so that no lane needs a division.
    std::string flat = PointwiseBy(kFlatBlock, /*exact=*/false);
    if (!divided_) return flat;
    int64_t last = 1;  // the innermost axis that is not of size 1
    const auto look = [&](const Dims& s) {
      for (int k = static_cast<int>(s.size()) - 1; k >= 0 && last == 1; --k) last = s[k];
    };
    for (const Value& v : parts_.full_outputs) look(v.shape());
    for (const Node* concat : parts_.assembled) look(concat->operand(0).shape());
    if (last < 8 || space_.n % last != 0) return flat;
    args_ = KernelArgs();
    emitter_.emplace(args_);
    return PointwiseBy(last, /*exact=*/true);
  }

  std::string PointwiseBy(int64_t block, bool exact) {
    const int64_t blocks = (space_.n + block - 1) / block;
    emitter_->SetOptions(Base());
    const IndexExpr b = emitter_->vars().AddVar("b", blocks, kInvariant);
    // A flat block may be short, so its elements count on from `b * block` to n as one variable.
    const IndexExpr full = exact ? b * block + emitter_->vars().AddVar("v", block, kLaneDepth)
                                 : emitter_->vars().AddVar("j", space_.n, kLaneDepth);
    StoreFull(*emitter_, parts_, full);
    const std::string lane =
        (exact ? "" : StrCat("const idx_t j = b * ", block, " + v;\n")) + emitter_->TakeLane();
    divided_ = lane.find("const idx_t q") != std::string::npos;
    const std::string count = exact || space_.n % block == 0
                                  ? StrCat(block)
                                  : StrCat("(b + 1 < ", blocks, " ? ", block, " : ",
                                           space_.n - (blocks - 1) * block, ")");
    return StrCat(Parallel(), "  for (idx_t b = 0; b < ", blocks, "; ++b) {\n",
                  Indent(emitter_->TakeInvariant(), 4),
                  Indent(StrCat("const idx_t len = ", count, ";\n", emitter_->TakeChunk(),
                                Lanes("len", lane)),
                         4),
                  "  }\n");
  }

  // The sweeps over one row; `row` and the start of its elements are defined. Column folds add to
  // `g*[lane][j]` when `column_lane` names the lane.
  std::string Sweeps(const IndexExpr& start, const IndexExpr& row, const std::string& length,
                     const std::string& column_lane) {
    const int64_t n = space_.row_length();
    const int64_t width = std::min(kRowLanes, BitCeil(n)), chunks = (n + width - 1) / width;
    ElementEmitter::Options o = Base();
    o.keep = parts_.sweeps > 1 && n <= kKeepElements;
    o.lane_index = "[j]";
    o.kept_extent = StrCat("[", n, "]");
    emitter_->SetOptions(o);
    const IndexExpr full = start + emitter_->vars().AddVar("j", n, kLaneDepth);
    const std::string define_j =
        chunks == 1 ? "const idx_t j = v;\n" : StrCat("const idx_t j = c * ", width, " + v;\n");
    for (const Value& v : parts_.picks) emitter_->Emit(v, row);
    std::string out;
    for (int s = 0; s < parts_.sweeps; ++s) {
      emitter_->BeginSweep();
      std::string declare, finish;
      for (const Node* f : parts_.row_folds[s]) {
        const std::string acc = emitter_->NewName("f"), op = FoldOp(*f);
        const std::string type = FoldType(*f);
        declare +=
            StrCat("alignas(64) ", type, " ", acc, "[", width, "];\n", "for (idx_t v = 0; v < ",
                   width, "; ++v) ", acc, "[v] = ", op, "::identity();\n");
        const std::string x = emitter_->Emit(f->operand(0), full);
        emitter_->AddLine(kLaneDepth, StrCat(acc, "[v] = ", op, "::of(", acc, "[v], ", x, ");"));
        const std::string total = emitter_->NewName("x");
        finish += StrCat("const ", ComputeCType(f->type().dtype), " ", total, " = ", op,
                         "::result(st_fold_lanes<", op, ">(", acc, ", ", width, "));\n");
        defined_.push_back({const_cast<Node*>(f)->result(), total});
      }
      if (s + 1 == parts_.sweeps) {
        StoreFull(*emitter_, parts_, full);
        for (size_t k = 0; k < parts_.column_folds.size(); ++k) {
          const std::string op = FoldOp(*parts_.column_folds[k]);
          const std::string x = emitter_->Emit(parts_.column_folds[k]->operand(0), full);
          const std::string slot = StrCat("g", k, "[", column_lane, "]", o.lane_index);
          emitter_->AddLine(kLaneDepth, StrCat(slot, " = ", op, "::of(", slot, ", ", x, ");"));
        }
      }
      const std::string invariant = emitter_->TakeInvariant();
      const std::string kept = emitter_->TakeKeptDeclarations();
      std::string loop = emitter_->TakeChunk() + Lanes("len", define_j + emitter_->TakeLane());
      if (chunks == 1) {
        loop = StrCat("{\n  const idx_t len = ", length, ";\n", Indent(loop, 2), "}\n");
      } else {
        loop = StrCat("for (idx_t c = 0; c < ", chunks, "; ++c) {\n  const idx_t rest = ", length,
                      " - c * ", width, ", len = rest < ", width,
                      " ? (rest < 0 ? 0 : rest) : ", width, ";\n", Indent(loop, 2), "}\n");
      }
      out += invariant + kept + declare + loop + finish;
      for (const auto& [value, text] : std::exchange(defined_, {}))
        emitter_->Define(value, row, text);
    }
    for (const Value& v : parts_.row_outputs) emitter_->Store(v, row, emitter_->Emit(v, row));
    out += emitter_->TakeInvariant();
    return out;
  }

  std::string Rows() {
    const int64_t rows = space_.rows(), chunks = space_.chunks();
    emitter_->SetOptions(Base());
    IndexExpr row = emitter_->vars().AddVar("r", rows, kInvariant), start;
    std::string length = StrCat(space_.chunk);
    if (chunks == 1) {
      start = row * space_.n;
    } else {
      const IndexExpr b = emitter_->vars().Mod(row, chunks);
      start = emitter_->vars().Div(row, chunks) * space_.n + b * space_.chunk;
      if (space_.n % space_.chunk != 0) {
        length = StrCat("((", emitter_->vars().Text(b), ") + 1 < ", chunks, " ? ", space_.chunk,
                        " : ", space_.n - (chunks - 1) * space_.chunk, ")");
      }
    }
    const std::string sweeps = Sweeps(start, row, length, "");
    return StrCat(Parallel(), "  for (idx_t r = 0; r < ", rows, "; ++r) {\n", Indent(sweeps, 4),
                  "  }\n");
  }

  std::string DeclareColumns(int64_t width) const {
    std::string out;
    for (size_t k = 0; k < parts_.column_folds.size(); ++k) {
      const Node& f = *parts_.column_folds[k];
      out += StrCat("alignas(64) ", ComputeCType(f.type().dtype), " g", k, "[8][", width, "];\n",
                    "for (idx_t y = 0; y < 8; ++y) for (idx_t v = 0; v < ", width, "; ++v) g", k,
                    "[y][v] = ", FoldOp(f), "::identity();\n");
    }
    return out;
  }

  // Combines the 8 lanes of `width` columns and stores them at `at` + v.
  std::string FinishColumns(const std::string& count, const std::string& at) {
    std::string out;
    for (size_t k = 0; k < parts_.column_folds.size(); ++k) {
      Node& f = *parts_.column_folds[k];
      const std::string g = StrCat("g", k), op = FoldOp(f);
      const std::string pointer = args_.Write(f.result());
      out += StrCat(
          "for (idx_t s = 1; s < 8; s *= 2) for (idx_t y = 0; y < 8; y += 2 * s) for (idx_t v = 0; "
          "v < ",
          count, "; ++v) ", g, "[y][v] = ", op, "::of(", g, "[y][v], ", g, "[y + s][v]);\n");
      out += StrCat("for (idx_t v = 0; v < ", count, "; ++v) st_put(", pointer, " + ", at, " + v, ",
                    g, "[0][v]);\n");
    }
    return out;
  }

  std::string ChunkCount(const char* b) const {
    if (space_.n % space_.chunk == 0) return StrCat(space_.chunk);
    return StrCat("(", b, " + 1 < ", space_.chunks(), " ? ", space_.chunk, " : ",
                  space_.n - (space_.chunks() - 1) * space_.chunk, ")");
  }

  std::string RowColumns() {
    emitter_->SetOptions(Base());
    const IndexExpr row = emitter_->vars().AddVar("r", space_.n, kInvariant);
    const std::string sweeps = Sweeps(row * space_.inner, row, StrCat(space_.inner), "i % 8");
    return StrCat(Parallel(), "  for (idx_t b = 0; b < ", space_.chunks(), "; ++b) {\n",
                  Indent(DeclareColumns(space_.inner), 4),
                  Indent(StrCat("const idx_t count = ", ChunkCount("b"),
                                ";\nfor (idx_t i = 0; i < count; ++i) {\n  const idx_t r = b * ",
                                space_.chunk, " + i;\n", Indent(sweeps, 2), "}\n"),
                         4),
                  Indent(FinishColumns(StrCat(space_.inner), StrCat("b * ", space_.inner)), 4),
                  "  }\n");
  }

  std::string Columns() {
    const int64_t tile = std::min(kColumnTile, space_.inner);
    const int64_t tiles = (space_.inner + tile - 1) / tile;
    emitter_->SetOptions(Base());
    IndexSpace& vars = emitter_->vars();
    const IndexExpr o = vars.AddVar("o", space_.outer, kInvariant);
    const IndexExpr k = vars.AddVar("k", tiles, kInvariant);
    const IndexExpr r = vars.AddVar("r", space_.n, kChunkDepth);
    (void)k;
    const IndexExpr full =
        (o * space_.n + r) * space_.inner + vars.AddVar("j", space_.inner, kLaneDepth);
    StoreFull(*emitter_, parts_, full);
    for (size_t f = 0; f < parts_.column_folds.size(); ++f) {
      const std::string x = emitter_->Emit(parts_.column_folds[f]->operand(0), full);
      emitter_->AddLine(kLaneDepth, StrCat("g", f, "[i % 8][v] = ", FoldOp(*parts_.column_folds[f]),
                                           "::of(g", f, "[i % 8][v], ", x, ");"));
    }
    const std::string invariant = emitter_->TakeInvariant(), chunk = emitter_->TakeChunk();
    const std::string lane = StrCat("const idx_t j = k * ", tile, " + v;\n") + emitter_->TakeLane();
    const std::string len = space_.inner % tile == 0
                                ? StrCat(tile)
                                : StrCat("(k + 1 < ", tiles, " ? ", tile, " : ",
                                         space_.inner - (tiles - 1) * tile, ")");
    std::string body = StrCat(
        invariant, DeclareColumns(tile), "const idx_t len = ", len, ", count = ", ChunkCount("b"),
        ";\nfor (idx_t i = 0; i < count; ++i) {\n  const idx_t r = b * ", space_.chunk, " + i;\n",
        Indent(chunk + Lanes("len", lane), 2), "}\n",
        FinishColumns("len",
                      StrCat("(o * ", space_.chunks(), " + b) * ", space_.inner, " + k * ", tile)));
    return StrCat(Parallel(" collapse(3)"), "  for (idx_t o = 0; o < ", space_.outer,
                  "; ++o)\n  for (idx_t b = 0; b < ", space_.chunks(),
                  "; ++b)\n  for (idx_t k = 0; k < ", tiles, "; ++k) {\n", Indent(body, 4),
                  "  }\n");
  }

  const RegionParts& parts_;
  const RegionSpace& space_;
  KernelArgs args_;
  std::optional<ElementEmitter> emitter_;
  std::vector<std::pair<Value, std::string>> defined_;
  bool divided_ = false;
};

}  // namespace

EmittedKernel EmitCpp(const RegionParts& parts) { return CppWriter(parts).Write(); }

}  // namespace stator
