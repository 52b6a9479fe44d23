// Loop nests for CUDA. A thread handles V consecutive elements (16 bytes where it can) of K chunks;
// a row belongs to P threads, a block holds Y rows. The lanes of ir/reduce_tree.h are laid out as
// g * (P * V) + t * V + v, whatever P, V and Y are, so that the result depends on the shape alone.
//
// Long rows of log-sum-exps go to emit_long_rows.cc where they fit it.
//
// Memory is far away: what a thread will need goes on its way before anything waits. Rows that fit
// the registers are loaded whole, packed as stored, ahead of the first sweep; other loops load
// several chunks or rows, then compute and store them. A store may overwrite what the same thread
// loaded from the same place, never what another one has still to load, so that loads may pass
// stores.
//
// Rows that are folded along columns too come one after the other. Copies to shared memory bring
// the next ones meanwhile, to places that only the thread itself reads (a ring), so that registers
// are free for the columns' sums. Threads for all kColumnLanes lanes would leave a thread too few
// of them: a row of threads folds some lanes in turn, and what waits for its neighbour in the tree
// stays in shared memory. (Over 600 lines, because rings and plain loops share the sweeps.)
#include "codegen/emit_region.h"
#include "codegen/placed_vectors.h"
#include "codegen/ring_loop.h"
#include "codegen/scalar.h"
#include "ir/base/error.h"
#include "ir/reduce_tree.h"
#include "ir/views.h"

#include <algorithm>
#include <bit>
#include <set>

namespace stator {
namespace {

constexpr int kBlock = 256;               // threads of a pointwise or short-row block
constexpr int64_t kKeepElements = 48;     // of a row held in one thread's registers
constexpr int64_t kSharedRow = 46 << 10;  // bytes of a longer row held in a block's shared memory
constexpr int64_t kBytesAhead = 128;      // a thread's loads under way
constexpr int64_t kChunksAhead = 4;
constexpr int64_t kManyBlocks = 128;  // about the multiprocessors of a large GPU

constexpr int64_t kFewElements = 1 << 20;  // of a region: its rows' loads all go first

constexpr int64_t kRingThreads = 512;     // of a multiprocessor: 128 registers each
constexpr int64_t kColumnRegisters = 72;  // for columns' sums, of those
constexpr int64_t kManyChunks = 64;  // enough for a ring: blocks for half of the multiprocessors

struct RowShape {
  int64_t v = 1, p = 32, k = 1, g = 1, y = 1;  // see the file's head
};

class CudaWriter {
 public:
  CudaWriter(const RegionParts& parts, const CudaLimits& limits, bool ring)
      : parts_(parts), space_(parts.space), limits_(limits), ring_(ring), emitter_(args_) {
    for (const Node* n : parts.inside) {
      Note(n->type().dtype);
      for (const Value& v : n->operands()) {
        if (v) Note(v.dtype());
      }
    }
  }

  // False after Write() when the region does not fit a ring.
  bool fits() const { return fits_; }

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
        body = ring_ ? RingRowColumns() : RowColumns();
        break;
    }
    EmittedKernel kernel;
    const std::string bounds = blocks_ > 1 ? StrCat(block_, ", ", blocks_) : StrCat(block_);
    kernel.body = StrCat("extern \"C\" __global__ void __launch_bounds__(", bounds, ") ",
                         kKernelName, "(", args_.Declaration(), ") {\n  st_begin();\n  typedef ",
                         parts_.wide_index ? "long long" : "int", " idx_t;\n", body, "}\n");
    kernel.args = args_.all();
    kernel.grid = grid_;
    kernel.block = block_;
    kernel.shared_bytes = static_cast<int>(shared_bytes_);
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
    o.early = true;
    if (!lane.terms.empty()) o.lane_var = lane.terms[0].first;
    return o;
  }

  // One chunk's worth of text: what does not vary with the lane, lanes, stores.
  std::string ChunkBody(int64_t v) {
    const std::string chunk = emitter_.TakeChunk(), lane = emitter_.TakeLane();
    return chunk + (lane.empty() ? "" : Unrolled("v", v, lane)) + emitter_.TakeAfterLane();
  }

  // How many of `count` chunks to load at once, by what the emitter has collected since `bytes`.
  int64_t Ahead(int64_t count, int64_t bytes, int64_t most = kChunksAhead) const {
    int64_t ahead = std::min(most, BitCeil(count));
    while (ahead > 1 && ahead * (emitter_.early_bytes() - bytes) > kBytesAhead) ahead /= 2;
    return ahead;
  }

  // Loads `ahead` chunks, does what is `between`, then computes and stores them. `define` gives the
  // chunk's variables in terms of u; loads and the rest happen where `condition` holds.
  std::string LoadThenCompute(const std::string& ahead, const std::string& define,
                              const std::string& condition, int64_t v,
                              const std::string& between = "") {
    const std::string declare = emitter_.TakeEarlyDeclarations(), loads = emitter_.TakeEarlyChunk();
    const auto loop = [&](const std::string& body) {
      return body.empty() ? ""
                          : StrCat("#pragma unroll\nfor (int u = 0; u < ", ahead, "; ++u) {\n",
                                   Indent(define + If(condition, body), 2), "}\n");
    };
    return declare + loop(loads) + between + loop(ChunkBody(v));
  }

  std::string Pointwise() {
    const int64_t v = Vector({space_.n}), k = space_.n >= (int64_t{1} << 22) ? 2 : 1;
    // No more threads than vectors: what varies with no variable is done by every thread, and a
    // scalar may be updated in place.
    block_ = static_cast<int>(std::min<int64_t>(kBlock, BitCeil(space_.n / v)));
    const int64_t per_block = block_ * v * k;
    grid_ = (space_.n + per_block - 1) / per_block;
    IndexSpace& vars = emitter_.vars();
    const IndexExpr vector = vars.AddVar("e", space_.n / v, kChunkDepth),
                    lane = vars.AddVar("v", v, kLaneDepth);
    ElementEmitter::Options o = Base(v, lane);
    o.slot = "[u]", o.slots = StrCat("[", k, "]");
    emitter_.SetOptions(o);
    const IndexExpr full = vector * v + lane;
    StoreFull(emitter_, parts_, full);
    const std::string define =
        StrCat("const idx_t e = ((idx_t)blockIdx.x * ", k, " + u) * ", block_, " + threadIdx.x;\n");
    const std::string condition = space_.n % per_block != 0 ? StrCat("e < ", space_.n / v) : "";
    const std::string early = emitter_.TakeEarlyInvariant(), invariant = emitter_.TakeInvariant();
    return Indent(early + LoadThenCompute(StrCat(k), define, condition, v, invariant), 2);
  }

  RowShape ShapeOfRows() const {
    RowShape s;
    const int64_t n = space_.row_length();
    s.v = space_.kind == SpaceKind::kRow ? Vector({n, space_.n}) : Vector({n});
    // Rows too long for registers are bound by arithmetic, which twice the threads hide better.
    if (space_.kind == SpaceKind::kRow && n > kKeepElements * kRowLanes / 8)
      s.v = std::min<int64_t>(s.v, 4);
    const int64_t vectors = (n + s.v - 1) / s.v;
    s.p = n <= kRowLanes ? std::min<int64_t>(32, BitCeil(vectors))
                         : std::min<int64_t>(kRowLanes / s.v, 256);
    if (space_.kind == SpaceKind::kRowColumn)
      s.p = std::clamp<int64_t>(s.p, 4, 128);  // whole warps of 8 rows
    SetChunks(&s);
    s.y = space_.kind == SpaceKind::kRowColumn ? 8 : s.p <= 32 ? kBlock / s.p : 1;
    return s;
  }

  void SetChunks(RowShape* s) const {
    s->k = (space_.row_length() + s->p * s->v - 1) / (s->p * s->v);
    s->g = std::min(kRowLanes / (s->p * s->v), BitCeil(s->k));
  }

  // The sweeps over one row of threads; variables t, y, live, r are defined.
  std::string Sweeps(const RowShape& shape, const IndexExpr& start, const IndexExpr& row,
                     const std::string& bound) {
    IndexSpace& vars = emitter_.vars();
    const int64_t n = space_.row_length();
    const bool keep = shape.k * shape.v <= kKeepElements;
    const IndexExpr lane = vars.AddVar("v", shape.v, kLaneDepth),
                    chunk = vars.AddVar("e", n / shape.v, kChunkDepth);
    const IndexExpr full = start + chunk * shape.v + lane;
    ElementEmitter::Options o = Base(shape.v, lane);
    if (!chunk.terms.empty()) o.chunk_var = chunk.terms[0].first;
    // A vector a thread, and few of them in all: time is what loads take that wait for each other.
    const bool at_first = space_.kind == SpaceKind::kRow && parts_.sweeps > 1 && keep &&
                          shape.k == 1 && space_.elements() <= kFewElements;
    o.keep = keep, o.keep_alike = at_first;
    o.place = ring_;
    fits_ = fits_ && (keep || !ring_);
    o.slot = keep ? "[c]" : "[u]";
    o.slots = keep ? StrCat("[", shape.k, "]") : "[ahead]";
    o.lane_index = "[c][v]";
    o.kept_extent = StrCat("[", shape.k, "][", shape.v, "]");
    o.shared_threads = shape.p, o.shared_chunks = shape.k;
    o.shared_bytes = !keep && shape.y == 1 ? kSharedRow : 0;
    emitter_.SetOptions(o);
    const std::string define_e = StrCat("const idx_t e = c * ", shape.p, " + t;\n(void)e;\n");
    const std::string end = bound.empty() ? StrCat(n) : bound;
    const std::string inside = bound.empty() && shape.k * shape.p * shape.v == n
                                   ? ""
                                   : StrCat("e * ", shape.v, " < ", end);
    for (const Value& v : parts_.picks) emitter_.Emit(v, row);
    std::string out, first, finish_before;
    for (int s = 0; s < parts_.sweeps; ++s) {
      emitter_.BeginSweep();
      const bool last = s + 1 == parts_.sweeps;
      emitter_.ShareLoads(!last);
      emitter_.PackResults(keep && !last && shape.v > 1);
      const int64_t bytes = emitter_.early_bytes();
      const size_t kept_before = emitter_.kept_vectors().size();
      std::string declare, lanes, combine;
      std::vector<RowTotal> totals;
      for (Node* f : parts_.row_folds[s]) {
        const std::string acc = emitter_.NewName("f"), op = FoldOp(*f), type = FoldType(*f);
        const std::string x = emitter_.Emit(f->operand(0), full);
        if (shape.g >=
            shape.k) {  // every lane has one element: combined with its neighbours at once
          declare += StrCat(type, " ", acc, "[", shape.k, "];\n",
                            Unrolled("c", shape.k, StrCat(acc, "[c] = ", op, "::identity();\n")));
          lanes += StrCat(type, " ", acc, "v[", shape.v, "];\n");
          emitter_.AddLine(kLaneDepth, StrCat(acc, "v[v] = ", x, ";"));
          combine += StrCat(acc, "[c] = st_fold_vector<", op, ">(", acc, "v);\n");
        } else {
          declare += StrCat(
              type, " ", acc, "[", shape.g, "][", shape.v, "];\n",
              Unrolled("c", shape.g,
                       Unrolled("v", shape.v, StrCat(acc, "[c][v] = ", op, "::identity();\n"))));
          const std::string slot =
              StrCat(acc, shape.g == 1 ? "[0]" : StrCat("[c % ", shape.g, "]"), "[v]");
          emitter_.AddLine(kLaneDepth, StrCat(slot, " = ", op, "::of(", slot, ", ", x, ");"));
        }
        totals.push_back({f->result(), op, type, acc, emitter_.NewName("x")});
      }
      std::string finish = Totals(shape, totals);
      if (last) {
        StoreFull(emitter_, parts_, full);
        for (size_t k = 0; k < parts_.column_folds.size(); ++k) {
          const std::string op = FoldOp(*parts_.column_folds[k]);
          const std::string x = emitter_.Emit(parts_.column_folds[k]->operand(0), full);
          emitter_.AddLine(kLaneDepth,
                           StrCat("g", k, "[c][v] = ", op, "::of(g", k, "[c][v], ", x, ");"));
        }
      }
      if (ring_) {
        ring_loads_ += emitter_.TakeEarlyChunk();
        fits_ = fits_ && emitter_.TakeEarlyDeclarations().empty();
      } else if (keep) {  // what this sweep is the first to need is on its way while the one before
                          // combines its lanes
        const std::string loads = emitter_.TakeEarlyChunk();
        std::string& to = at_first ? first : out;
        to += emitter_.TakeEarlyDeclarations();
        if (!loads.empty()) to += Chunks(shape.k, define_e + If(inside, loads));
      }
      out += finish_before;
      if (space_.kind == SpaceKind::kRowColumn && !ring_) {
        for (size_t k = 0; k < kept_before; ++k)
          out += StrCat("st_hold(", emitter_.kept_vectors()[k], ");\n");
      }
      std::string invariant = emitter_.TakeInvariant();
      if (ring_ && s == 0) row_values_ = std::exchange(invariant, {});
      out += invariant + emitter_.TakeKeptDeclarations() + declare;
      const std::string live = last && may_be_dead_ ? "live" : "";
      const std::string condition =
          inside.empty() || live.empty() ? inside + live : StrCat(live, " && ", inside);
      if (keep) {
        const std::string text = lanes + ChunkBody(shape.v) + combine,
                          body = If(condition, placed().Reads(text, "ring") + text);
        if (!body.empty()) out += Chunks(shape.k, define_e + body);
      } else {
        out += Stream(shape, define_e, condition, end, bytes);
      }
      finish_before = std::move(finish);
      for (const RowTotal& t : totals) emitter_.Define(t.value, row, t.total);
    }
    out += finish_before;
    for (const Value& v : parts_.row_outputs) emitter_.Store(v, row, emitter_.Emit(v, row));
    out += If(may_be_dead_ ? "live && t == 0" : "t == 0", emitter_.TakeInvariant());
    if (ring_) {
      ring_loads_ =
          Chunks(shape.k, define_e + If(inside, placed().Places(false, "ring") + ring_loads_));
      alike_loads_ = emitter_.TakeAlikeLoads();
      if (!alike_loads_.empty())
        alike_loads_ = If(
            "y == 0",
            Chunks(shape.k, define_e + If(inside, placed().Places(true, "ring") + alike_loads_)));
      return out;
    }
    return emitter_.TakeSharedDeclarations() + emitter_.TakeEarlyInvariant() + first + out;
  }

  struct RowTotal {
    Value value;
    std::string op, type, lanes, total;
  };
  // Combines the lanes of a sweep's folds.
  std::string Totals(const RowShape& shape, const std::vector<RowTotal>& totals) {
    std::string text;
    if (!ring_) {
      for (const RowTotal& t : totals) {
        text += StrCat("const auto ", t.total, " = ", t.op, "::result(st_fold_lanes<", t.op, ", ",
                       shape.p, ", ", shape.y, ">(", t.lanes, ", t, y));\n");
      }
      return text;
    }
    std::set<std::string> ops;
    for (const RowTotal& first : totals) {  // those with the same op at once
      if (!ops.insert(first.op).second) continue;
      const std::string all = emitter_.NewName("f");
      std::string gather, results;
      int count = 0;
      for (const RowTotal& t : totals) {
        if (t.op != first.op) continue;
        gather += StrCat("st_fold_vectors<", t.op, ">(", t.lanes, ", ", all, "[", count, "]);\n");
        results += StrCat("const ", t.type, " ", t.total, " = ", all, "[", count++, "][0];\n");
      }
      text += StrCat(first.type, " ", all, "[", count, "][", std::min(shape.g, shape.k), "];\n",
                     gather, "st_fold_rows<", first.op, ", ", shape.p, ", Y>(", all,
                     ", t, y, turn);\n", results);
    }
    return text;
  }

  // Over the chunks of a row in registers.
  static std::string Chunks(int64_t count, const std::string& body) {
    if (count > 1) return Unrolled("c", count, body);
    return StrCat("{\n  constexpr int c = 0; (void)c;\n", Indent(body, 2), "}\n");
  }

  // A sweep over a row that does not fit the registers.
  std::string Stream(const RowShape& shape, const std::string& define_e, std::string condition,
                     const std::string& end, int64_t bytes) {
    const int64_t ahead = Ahead(shape.k, bytes);
    if (condition.empty() && shape.k % ahead != 0) condition = StrCat("e * ", shape.v, " < ", end);
    const std::string body =
        LoadThenCompute("ahead", "const int c = c0 + u;\n" + define_e, condition, shape.v);
    if (body.empty()) return "";
    return StrCat("for (int c0 = 0; c0 < ", shape.k, "; c0 += ", ahead,
                  ") {\n  constexpr int ahead = ", ahead, ";\n", Indent(body, 2), "}\n");
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
      head +=
          StrCat("const idx_t r0 = (idx_t)blockIdx.x * ", shape.y, " + y;\nconst bool live = r0 < ",
                 rows, ";\nconst idx_t r = live ? r0 : ", rows - 1, ";\n");
    } else {
      head += StrCat("const idx_t r = (idx_t)blockIdx.x * ", shape.y, " + y;\n");
    }
    return Indent(head + sweeps, 2);
  }

  static std::string Threads(const RowShape& shape) {
    return StrCat("const int t = threadIdx.x % ", shape.p, ", y = threadIdx.x / ", shape.p,
                  ";\n(void)t; (void)y;\n");
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
      declare +=
          StrCat(type, " ", g, "[", shape.k, "][", shape.v, "];\n",
                 Unrolled("c", shape.k,
                          Unrolled("v", shape.v, StrCat(g, "[c][v] = ", op, "::identity();\n"))));
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
    std::string head = StrCat("const idx_t i8 = i * ", shape.y, " + y, r", may_be_dead_ ? "0" : "",
                              " = (idx_t)blockIdx.x * ", space_.chunk, " + i8;\n");
    if (may_be_dead_) {
      head += StrCat("const bool live = i8 < ", space_.chunk, " && r0 < ", space_.n,
                     ";\nconst idx_t r = live ? r0 : ", space_.n - 1, ";\n");
    }
    if (at_once > 1) head = declare + head;
    return Indent(
        StrCat(Threads(shape), at_once > 1 ? declare_lanes : declare, "for (int i = 0; i < ", rows,
               "; ++i) {\n", Indent(head + sweeps + add, 2), "}\n", finish),
        2);
  }

  // A ring's memory: what all rows read alike, then kRingRows rows of every row of threads, then
  // column lanes that wait for others, where all meet at last.
  PlacedVectors placed() const { return {emitter_, vectors_}; }
  static int Registers(const Node& fold) { return std::max(1, ByteWidth(fold.type().dtype) / 4); }

  // Threads for whole warps of a row, with registers for the columns' sums.
  RowShape ShapeOfRing() {
    RowShape s = ShapeOfRows();
    int64_t each = 0;  // registers of a column
    for (const Node* f : parts_.column_folds) each += Registers(*f);
    while (s.k * s.v * each > kColumnRegisters && s.p < 256) {
      if (s.p * s.v >= kRowLanes) {
        if (s.v <= 4) break;
        s.v /= 2;
      }
      s.p *= 2;
      SetChunks(&s);
    }
    const int64_t rows = (space_.chunk + kColumnLanes - 1) / kColumnLanes;
    fits_ = s.p >= 32 && s.p % 32 == 0 && s.k * s.v * each <= kColumnRegisters &&
            space_.chunks() >= kManyChunks && rows % std::min<int64_t>(rows, 32) == 0;
    return s;
  }

  // Rows of threads and blocks on a multiprocessor, as many as the ring's memory allows.
  void FitRing(RowShape* s, int64_t waiting) {
    int64_t row = placed().Bytes(false) * kRingRows, meet = 0;
    for (const Node* f : parts_.column_folds)
      meet = std::max(meet, 4 * Registers(*f) * s->k * s->p * s->v);  // st_store_columns
    if (placed().Bytes(false) == 0) fits_ = false;
    constexpr int64_t kRest =
        5 << 10;  // of a block: the system's and what row folds leave for each other
    for (s->y = std::min(kColumnLanes, kRingThreads / s->p); s->y > 0 && s->y * s->p >= 128;
         s->y /= 2) {
      const int64_t levels = std::bit_width(static_cast<uint64_t>(kColumnLanes / s->y)) - 1;
      shared_bytes_ = placed().Bytes(true) + s->y * (row + std::max(levels * waiting, meet));
      const int64_t block = shared_bytes_ + kRest;
      for (blocks_ = static_cast<int>(kRingThreads / (s->p * s->y)); blocks_ > 0; --blocks_) {
        if (blocks_ * block <= limits_.shared_bytes) return;
      }
    }
    s->y = 1, blocks_ = 1, fits_ = false;
  }

  std::string RingRowColumns() {
    RowShape shape = ShapeOfRing();
    vectors_ = space_.inner / shape.v;
    may_be_dead_ = space_.n % space_.chunk != 0 || space_.chunk % kColumnLanes != 0;
    IndexSpace& vars = emitter_.vars();
    emitter_.SetOptions(Base(1, {}));
    const IndexExpr index = vars.AddVar("r", space_.n, kInvariant);
    const std::string sweeps = Sweeps(shape, index * space_.inner, index, "");
    int64_t waiting = 0;  // bytes of a row of threads' column lanes
    for (const Node* f : parts_.column_folds)
      waiting += placed().RowBytes(4 * Registers(*f) * shape.v);
    FitRing(&shape, waiting);
    const int64_t serial = kColumnLanes / shape.y;  // lanes that a row of threads folds in turn
    const int64_t each = (space_.chunks() + limits_.multiprocessors * blocks_ - 1) /
                         (limits_.multiprocessors * blocks_);
    grid_ = (space_.chunks() + each - 1) / each;
    block_ = static_cast<int>(shape.p * shape.y);
    const int64_t rows = (space_.chunk + kColumnLanes - 1) / kColumnLanes;

    std::string head =
        StrCat("const idx_t b = (idx_t)blockIdx.x * ", each, " + q / ", rows * serial,
               ", i8 = q % ", rows, " * ", kColumnLanes, " + y * ", serial, " + q / ", rows, " % ",
               serial, ", r", may_be_dead_ ? "0" : "", " = b * ", space_.chunk, " + i8;\n");
    if (may_be_dead_) {
      head += StrCat("const bool live = i8 < ", space_.chunk, " && r0 < ", space_.n,
                     ";\n(void)live;\nconst idx_t r = live ? r0 : ", space_.n - 1, ";\n");
    }
    const auto looped = RingLoop({.head = head,
                                  .early = emitter_.TakeEarlyInvariant(),
                                  .row_values = row_values_,
                                  .loads = ring_loads_,
                                  .alike_loads = alike_loads_,
                                  .sweeps = sweeps,
                                  .row_bytes = placed().Bytes(false),
                                  .alike_bytes = placed().Bytes(true)},
                                 std::min<int64_t>(rows, 32));
    fits_ = fits_ && looped.has_value();
    const RingText loop = looped.value_or(RingText());

    // Memory in its order: see placed().
    const int64_t levels = std::bit_width(static_cast<uint64_t>(serial)) - 1;
    const int64_t wait_at = placed().Bytes(true) + placed().Bytes(false) * kRingRows * shape.y;
    std::string declare, reset, merge, wait, finish;
    int64_t offset = 0;
    for (size_t k = 0; k < parts_.column_folds.size(); ++k) {
      Node* f = parts_.column_folds[k];
      const std::string g = StrCat("g", k), op = FoldOp(*f), type = ComputeCType(f->type().dtype),
                        out = args_.Write(f->result());
      const std::string place = StrCat("st_place<", type, ", ", shape.v, ", ", vectors_,
                                       ">(waiting + ", offset, ", e)"),
                        vec = StrCat("st_vec<", type, ", ", shape.v, ">");
      offset += placed().RowBytes(4 * Registers(*f) * shape.v);
      declare += StrCat(type, " ", g, "[", shape.k, "][", shape.v, "];\n");
      reset += Unrolled("c", shape.k,
                        Unrolled("v", shape.v, StrCat(g, "[c][v] = ", op, "::identity();\n")));
      merge +=
          StrCat("const ", vec, " w", k, " = ", place, ".get();\n",
                 Unrolled("v", shape.v,
                          StrCat(g, "[c][v] = ", op, "::of(w", k, ".t[v], ", g, "[c][v]);\n")));
      wait += StrCat(vec, " w", k, ";\n",
                     Unrolled("v", shape.v, StrCat("w", k, ".t[v] = ", g, "[c][v];\n")), place,
                     ".put(w", k, ");\n");
      finish += StrCat("st_store_columns<", op, ", ", shape.p, ", Y>(", g, ", t, y, st_shared + ",
                       wait_at, ", ", out, " + b * ", space_.inner, ", ", space_.inner, ");\n");
    }
    std::string lane =
        StrCat(reset, "for (int i = 0; i < ", rows, "; ++i, ++q) {\n", Indent(loop.row, 2), "}\n");
    if (serial > 1) {
      // The tree's neighbours: lane l ends the pairs, fours, ... that its low bits of 1 count.
      const std::string define_e = StrCat("const idx_t e = c * ", shape.p, " + t;\n"),
                        inside = shape.k * shape.p > vectors_ ? StrCat("e < ", vectors_) : "";
      const auto chunks = [&](const std::string& text) {
        return Chunks(shape.k, define_e + If(inside, text));
      };
      lane +=
          StrCat("unsigned char* waiting = st_shared + ", wait_at, " + y * ", levels * waiting,
                 ";\nfor (int s = l; s & 1; s >>= 1) {\n", Indent(chunks(merge), 2),
                 "  waiting += ", waiting, ";\n}\n", If(StrCat("l < ", serial - 1), chunks(wait)));
      lane = StrCat("for (int l = 0; l < ", serial, "; ++l) {\n", Indent(lane, 2), "}\n");
      finish += "__syncthreads();\n";  // before lanes wait there again
    }
    const int64_t last = space_.chunks() - (grid_ - 1) * each;
    const std::string count =
        last == each ? StrCat(each) : StrCat("blockIdx.x + 1 < ", grid_, " ? ", each, " : ", last);
    // Rows of threads are turned against each other, so that a row's emptier warps share no
    // scheduler.
    return Indent(
        StrCat("constexpr int Y = ", shape.y, ";\nconst int y = threadIdx.x / ", shape.p,
               ", t = (threadIdx.x + 32 * y) % ", shape.p,
               ";\nextern __shared__ __align__(16) unsigned char st_shared[];\nconst int count = ",
               count, ";\nconst unsigned total = count * ", rows * serial, ";\n", loop.before,
               declare, "for (int m = 0; m < count; ++m) {\n",
               Indent(StrCat(lane, "const idx_t b = (idx_t)blockIdx.x * ", each, " + m;\n", finish),
                      2),
               "}\n"),
        2);
  }

  // Combines the block's column lanes and stores one column a thread: `first` + y * P + t of
  // `count`.
  static std::string StoreColumns(const std::string& op, int64_t p, int64_t v,
                                  const std::string& lanes, const std::string& first, int64_t count,
                                  bool partial, const std::string& out) {
    std::vector<std::string> tests;
    if (v < 8) tests.push_back(StrCat("y * ", p, " + t < ", p * v));
    if (partial) tests.push_back(StrCat("j < ", count));
    return StrCat("{\n  const auto total = st_fold_columns<", op, ", ", p, ", ", v, ">(", lanes,
                  ", t, y);\n", "  const idx_t j = ", first, " + y * ", p, " + t;\n  ",
                  tests.empty() ? "" : StrCat("if (", Join(tests, " && "), ") "), "st_put(", out,
                  " + j, total);\n}\n");
  }

  std::string Columns() {
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

  const RegionParts& parts_;
  const RegionSpace& space_;
  const CudaLimits& limits_;
  const bool ring_;
  KernelArgs args_;
  ElementEmitter emitter_;
  int narrowest_ = 8;
  int64_t grid_ = 1;
  int block_ = kBlock;
  int blocks_ = 1;            // at once on a multiprocessor, at least
  bool may_be_dead_ = false;  // some threads of the last block have no row
  bool fits_ = true;
  int64_t shared_bytes_ = 0;
  int64_t vectors_ = 0;  // of a ring's row
  std::string ring_loads_, alike_loads_,
      row_values_;  // of a ring; row_values_: what the row alone decides
};

}  // namespace

CudaLimits LimitsOf(int sm) {
  switch (sm) {
    case 80:
      return {164 << 10, 108};
    case 86:
      return {100 << 10, 82};
    case 89:
      return {100 << 10, 128};
    case 90:
      return {228 << 10, 132, 16};
    case 100:
      return {228 << 10, 148, 16};
    default:
      return {100 << 10, 108};
  }
}

EmittedKernel EmitCuda(const RegionParts& parts, const CudaLimits& limits) {
  if (auto kernel = EmitLongRows(parts, limits)) return *std::move(kernel);
  if (parts.space.kind == SpaceKind::kRowColumn) {
    CudaWriter writer(parts, limits, /*ring=*/true);
    const EmittedKernel kernel = writer.Write();
    if (writer.fits()) return kernel;
  }
  return CudaWriter(parts, limits, /*ring=*/false).Write();
}

}  // namespace stator
