// Loop nests for CUDA. A thread handles V consecutive elements (16 bytes where it can) of K chunks;
// a row belongs to P threads, a block holds Y rows. The lanes of ir/reduce_tree.h are laid out as
// g * (P * V) + t * V + v, whatever P, V and Y are, so that the result depends on the shape alone.
#include <algorithm>

#include "codegen/emit_region.h"
#include "codegen/scalar.h"
#include "ir/base/error.h"
#include "ir/reduce_tree.h"
#include "ir/views.h"

namespace stator {
namespace {

constexpr int kBlock = 256;          // threads of a pointwise or short-row block
constexpr int64_t kKeepElements = 48;  // of a row held in one thread's registers

struct RowShape {
  int64_t v = 1, p = 32, k = 1, g = 1, y = 1;  // see the file's head
};

class CudaWriter {
 public:
  explicit CudaWriter(const RegionParts& parts) : parts_(parts), space_(parts.space), emitter_(args_) {
    for (const Node* n : parts.inside) {
      Note(n->type().dtype);
      for (const Value& v : n->operands()) {
        if (v) Note(v.dtype());
      }
    }
  }

  EmittedKernel Write() {
    std::string body;
    switch (space_.kind) {
      case SpaceKind::kPointwise: body = Pointwise(); break;
      case SpaceKind::kRow: body = Rows(); break;
      case SpaceKind::kColumn: body = Columns(); break;
      case SpaceKind::kRowColumn: body = RowColumns(); break;
    }
    EmittedKernel kernel;
    kernel.body = StrCat("extern \"C\" __global__ void __launch_bounds__(", block_, ") ", kKernelName, "(",
                         args_.Declaration(), ") {\n  typedef ", parts_.wide_index ? "long long" : "int",
                         " idx_t;\n", body, "}\n");
    kernel.args = args_.values();
    kernel.grid = grid_;
    kernel.block = block_;
    return kernel;
  }

 private:
  void Note(DType d) {
    const int width = ByteWidth(d);
    if (IsFloat(d) && width < narrowest_) narrowest_ = width;
  }

  // The widest vector whose elements fill at most 16 bytes of the narrowest float and that divides
  // every one of `sizes`.
  int64_t Vector(std::initializer_list<int64_t> sizes) const {
    int64_t v = narrowest_ <= 2 ? 8 : narrowest_ == 4 ? 4 : 2;
    for (const int64_t size : sizes) {
      while (size % v != 0) v /= 2;
    }
    return v;
  }

  ElementEmitter::Options Base(int64_t vector, const IndexExpr& lane) const {
    ElementEmitter::Options o;
    o.language = Language::kCuda;
    o.space = space_;
    o.inside = parts_.inside;
    o.vector = static_cast<int>(vector);
    if (!lane.terms.empty()) o.lane_var = lane.terms[0].first;
    return o;
  }

  static std::string Unrolled(const char* var, int64_t count, const std::string& body) {
    return StrCat("#pragma unroll\nfor (int ", var, " = 0; ", var, " < ", count, "; ++", var, ") {\n",
                  Indent(body, 2), "}\n");
  }

  // One chunk's worth of text: loads, lanes, stores.
  std::string ChunkBody(int64_t v) {
    const std::string chunk = emitter_.TakeChunk(), lane = emitter_.TakeLane();
    return chunk + (lane.empty() ? "" : Unrolled("v", v, lane)) + emitter_.TakeAfterLane();
  }

  std::string Pointwise() {
    const int64_t v = Vector({space_.n}), k = space_.n >= (int64_t{1} << 22) ? 2 : 1;
    const int64_t per_block = kBlock * v * k;
    grid_ = (space_.n + per_block - 1) / per_block;
    block_ = kBlock;
    IndexSpace& vars = emitter_.vars();
    const IndexExpr vector = vars.AddVar("e", space_.n / v, kChunkDepth), lane = vars.AddVar("v", v, kLaneDepth);
    emitter_.SetOptions(Base(v, lane));
    const IndexExpr full = vector * v + lane;
    for (const Value& out : parts_.full_outputs) emitter_.Store(out, full, emitter_.Emit(out, full));
    std::string body = ChunkBody(v);
    if (space_.n % per_block != 0) body = StrCat("if (e < ", space_.n / v, ") {\n", Indent(body, 2), "}\n");
    body = StrCat("const idx_t e = ((idx_t)blockIdx.x * ", k, " + c) * ", kBlock, " + threadIdx.x;\n", body);
    return StrCat(Indent(emitter_.TakeInvariant(), 2),
                  Indent(k == 1 ? StrCat("{\n", k == 1 ? "  constexpr int c = 0; (void)c;\n" : "", Indent(body, 2), "}\n")
                                : Unrolled("c", k, body), 2));
  }

  RowShape ShapeOfRows() const {
    RowShape s;
    const int64_t n = space_.row_length();
    s.v = space_.kind == SpaceKind::kRow ? Vector({n, space_.n}) : Vector({n});
    const int64_t vectors = (n + s.v - 1) / s.v;
    s.p = n <= kRowLanes ? std::min<int64_t>(32, BitCeil(vectors)) : std::min<int64_t>(kRowLanes / s.v, 256);
    if (space_.kind == SpaceKind::kRowColumn) s.p = std::min<int64_t>(s.p, 128);
    s.k = (n + s.p * s.v - 1) / (s.p * s.v);
    s.g = std::min(kRowLanes / (s.p * s.v), BitCeil(s.k));
    s.y = space_.kind == SpaceKind::kRowColumn ? 8 : s.p <= 32 ? kBlock / s.p : 1;
    return s;
  }

  // The sweeps over one row of threads; variables t, y, live, r are defined.
  std::string Sweeps(const RowShape& shape, const IndexExpr& start, const IndexExpr& row,
                     const std::string& bound) {
    IndexSpace& vars = emitter_.vars();
    const int64_t n = space_.row_length();
    const bool keep = shape.k * shape.v <= kKeepElements && parts_.sweeps > 1;
    const IndexExpr lane = vars.AddVar("v", shape.v, kLaneDepth);
    const IndexExpr full = start + vars.AddVar("e", n / shape.v, kChunkDepth) * shape.v + lane;
    ElementEmitter::Options o = Base(shape.v, lane);
    o.keep = keep;
    o.lane_index = "[c][v]";
    o.chunk_index = "[c]";
    o.kept_extent = StrCat("[", shape.k, "][", shape.v, "]");
    emitter_.SetOptions(o);
    const bool partial = !bound.empty() || shape.k * shape.p * shape.v != n;
    std::string out;
    for (int s = 0; s < parts_.sweeps; ++s) {
      emitter_.BeginSweep();
      std::string declare, finish;
      std::vector<std::pair<Value, std::string>> defined;
      for (Node* f : parts_.row_folds[s]) {
        const std::string acc = emitter_.NewName("f"), op = FoldOp(*f), type = ComputeCType(f->type().dtype);
        declare += StrCat(type, " ", acc, "[", shape.g, "][", shape.v, "];\n",
                          Unrolled("c", shape.g, Unrolled("v", shape.v, StrCat(acc, "[c][v] = ", op, "::identity();\n"))));
        const std::string x = emitter_.Emit(f->operand(0), full);
        const std::string slot = StrCat(acc, shape.g == 1 ? "[0]" : shape.g >= shape.k ? "[c]" : StrCat("[c % ", shape.g, "]"), "[v]");
        emitter_.AddLine(kLaneDepth, StrCat(slot, " = ", op, "::of(", slot, ", ", x, ");"));
        const std::string total = emitter_.NewName("x");
        finish += StrCat("const ", type, " ", total, " = st_fold_lanes<", op, ", ", shape.p, ", ", shape.y, ">(", acc, ", t, y);\n");
        defined.push_back({f->result(), total});
      }
      if (s + 1 == parts_.sweeps) {
        for (const Value& v : parts_.full_outputs) emitter_.Store(v, full, emitter_.Emit(v, full));
        for (size_t k = 0; k < parts_.column_folds.size(); ++k) {
          const std::string op = FoldOp(*parts_.column_folds[k]);
          const std::string x = emitter_.Emit(parts_.column_folds[k]->operand(0), full);
          emitter_.AddLine(kLaneDepth, StrCat("g", k, "[c][v] = ", op, "::of(g", k, "[c][v], ", x, ");"));
        }
      }
      const std::string invariant = emitter_.TakeInvariant(), kept = emitter_.TakeKeptDeclarations();
      std::string body = ChunkBody(shape.v);
      const bool writes = s + 1 == parts_.sweeps;
      std::string condition = partial ? StrCat("e * ", shape.v, " < ", bound.empty() ? StrCat(n) : bound) : "";
      if (writes && may_be_dead_) condition = condition.empty() ? "live" : StrCat("live && ", condition);
      if (body.empty()) condition.clear();
      if (!condition.empty()) body = StrCat("if (", condition, ") {\n", Indent(body, 2), "}\n");
      if (!body.empty()) body = StrCat("const idx_t e = c * ", shape.p, " + t;\n(void)e;\n", body);
      out += invariant + kept + declare;
      if (!body.empty()) out += shape.k == 1 ? StrCat("{\n  constexpr int c = 0; (void)c;\n", Indent(body, 2), "}\n")
                              : keep || shape.k <= 8 ? Unrolled("c", shape.k, body)
                                                     : StrCat("for (int c = 0; c < ", shape.k, "; ++c) {\n", Indent(body, 2), "}\n");
      out += finish;
      for (const auto& [value, text] : defined) emitter_.Define(value, row, text);
    }
    std::string stores;
    for (const Value& v : parts_.row_outputs) emitter_.Store(v, row, emitter_.Emit(v, row));
    stores = emitter_.TakeInvariant();
    if (!stores.empty()) {
      const std::string who = may_be_dead_ ? "live && t == 0" : "t == 0";
      out += StrCat("if (", who, ") {\n", Indent(stores, 2), "}\n");
    }
    return out;
  }

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
    std::string head = Threads(shape);
    if (may_be_dead_) {
      head += StrCat("const idx_t r0 = (idx_t)blockIdx.x * ", shape.y, " + y;\nconst bool live = r0 < ", rows,
                     ";\nconst idx_t r = live ? r0 : ", rows - 1, ";\n");
    } else {
      head += StrCat("const idx_t r = (idx_t)blockIdx.x * ", shape.y, " + y;\n");
    }
    return Indent(head + sweeps, 2);
  }

  static std::string Threads(const RowShape& shape) {
    return StrCat("const int t = threadIdx.x % ", shape.p, ", y = threadIdx.x / ", shape.p, ";\n(void)t; (void)y;\n");
  }

  std::string RowColumns() {
    const RowShape shape = ShapeOfRows();
    grid_ = space_.chunks();
    block_ = static_cast<int>(shape.p * shape.y);
    may_be_dead_ = true;
    IndexSpace& vars = emitter_.vars();
    emitter_.SetOptions(Base(1, {}));
    const IndexExpr row = vars.AddVar("r", space_.n, kInvariant);
    const std::string sweeps = Sweeps(shape, row * space_.inner, row, "");
    std::string declare, finish;
    for (size_t k = 0; k < parts_.column_folds.size(); ++k) {
      Node* f = parts_.column_folds[k];
      const std::string g = StrCat("g", k), op = FoldOp(*f), out = args_.Write(f->result());
      declare += StrCat(ComputeCType(f->type().dtype), " ", g, "[", shape.k, "][", shape.v, "];\n",
                        Unrolled("c", shape.k, Unrolled("v", shape.v, StrCat(g, "[c][v] = ", op, "::identity();\n"))));
      const std::string j0 = StrCat("c * ", shape.p * shape.v, " + t * ", shape.v);
      finish += Unrolled("c", shape.k,
                         StrCat("st_fold_columns<", op, ", ", shape.p, ", ", shape.v, ">(", g, "[c], t, y);\nif (y == 0 && ", j0, " < ",
                                space_.inner, ") st_store<", shape.v, ">(", out, " + (idx_t)blockIdx.x * ", space_.inner, " + ", j0, ", ", g, "[c]);\n"));
    }
    return Indent(StrCat(Threads(shape), declare, "for (int i = 0; i < ", (space_.chunk + 7) / 8, "; ++i) {\n",
                         "  const idx_t i8 = i * 8 + y, r0 = (idx_t)blockIdx.x * ", space_.chunk, " + i8;\n",
                         "  const bool live = i8 < ", space_.chunk, " && r0 < ", space_.n, ";\n  const idx_t r = live ? r0 : ",
                         space_.n - 1, ";\n", Indent(sweeps, 2), "}\n", finish), 2);
  }

  std::string Columns() {
    const int64_t v = Vector({space_.inner}), tile = 32 * v;
    const int64_t tiles = (space_.inner + tile - 1) / tile, chunks = space_.chunks();
    grid_ = tiles * chunks * space_.outer;
    block_ = 256;
    IndexSpace& vars = emitter_.vars();
    const IndexExpr o = vars.AddVar("o", space_.outer, kInvariant), r = vars.AddVar("r", space_.n, kChunkDepth);
    const IndexExpr lane = vars.AddVar("v", v, kLaneDepth);
    emitter_.SetOptions(Base(v, lane));
    const IndexExpr j0 = vars.AddVar("e", space_.inner / v, kInvariant) * v;
    const IndexExpr full = (o * space_.n + r) * space_.inner + j0 + lane;
    for (const Value& out : parts_.full_outputs) emitter_.Store(out, full, emitter_.Emit(out, full));
    std::string declare, finish;
    for (size_t f = 0; f < parts_.column_folds.size(); ++f) {
      Node* fold = parts_.column_folds[f];
      const std::string g = StrCat("g", f), op = FoldOp(*fold);
      const std::string x = emitter_.Emit(fold->operand(0), full);
      emitter_.AddLine(kLaneDepth, StrCat(g, "[v] = ", op, "::of(", g, "[v], ", x, ");"));
      declare += StrCat(ComputeCType(fold->type().dtype), " ", g, "[", v, "];\n",
                        Unrolled("v", v, StrCat(g, "[v] = ", op, "::identity();\n")));
      finish += StrCat("st_fold_columns<", op, ", 32, ", v, ">(", g, ", t, y);\nif (y == 0 && inside) st_store<", v, ">(",
                       args_.Write(fold->result()), " + ((idx_t)o * ", chunks, " + b) * ", space_.inner, " + e * ", v, ", ", g, ");\n");
    }
    const std::string invariant = emitter_.TakeInvariant();
    const std::string body = ChunkBody(v);
    const std::string inside = space_.inner % tile == 0 ? "true" : StrCat("e * ", v, " < ", space_.inner);
    const std::string count = space_.n % space_.chunk == 0 ? StrCat(space_.chunk)
                              : StrCat("(b + 1 < ", chunks, " ? ", space_.chunk, " : ", space_.n - (chunks - 1) * space_.chunk, ")");
    return Indent(StrCat("const int t = threadIdx.x % 32, y = threadIdx.x / 32;\n(void)t; (void)y;\n",
                         "const idx_t k = blockIdx.x % ", tiles, ", b = blockIdx.x / ", tiles, " % ", chunks, ", o = blockIdx.x / ",
                         tiles * chunks, ";\n(void)o;\n", "const idx_t e = k * 32 + t;\n", "const bool inside = ", inside, ";\nconst idx_t count = inside ? ", count,
                         " : 0;\n", invariant, declare, "#pragma unroll 4\nfor (idx_t i = y; i < count; i += 8) {\n  const idx_t r = b * ",
                         space_.chunk, " + i;\n  (void)r;\n", Indent(body, 2), "}\n", finish), 2);
  }

  const RegionParts& parts_;
  const RegionSpace& space_;
  KernelArgs args_;
  ElementEmitter emitter_;
  int narrowest_ = 8;
  int64_t grid_ = 1;
  int block_ = kBlock;
  bool may_be_dead_ = false;  // some threads of the last block have no row
};

}  // namespace

EmittedKernel EmitCuda(const RegionParts& parts) { return CudaWriter(parts).Write(); }

}  // namespace stator
