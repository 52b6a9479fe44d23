// Many rows that are folded along columns too, for CUDA. Copies to shared memory bring the next
// rows while one is worked on, to places that only the thread itself reads (a ring), so that
// registers are free for the columns' sums. Threads for all kColumnLanes lanes would leave a thread
// too few of them: a row of threads folds some lanes in turn, and what waits for its neighbour in
// the tree stays in shared memory.
#include "codegen/emit_region.h"
#include "codegen/ring_loop.h"
#include "codegen/row_writer.h"
#include "codegen/scalar.h"
#include "ir/reduce_tree.h"

#include <algorithm>
#include <bit>
#include <optional>

namespace stator {
namespace {

constexpr int64_t kRingThreads = 512;     // of a multiprocessor: 128 registers each
constexpr int64_t kColumnRegisters = 72;  // for columns' sums, of those
constexpr int64_t kManyChunks = 64;  // enough for a ring: blocks for half of the multiprocessors

class RingWriter : public RowWriter {
 public:
  RingWriter(const RegionParts& parts, const CudaLimits& limits)
      : RowWriter(parts, RowLoads::kRing), limits_(limits) {}

  std::optional<EmittedKernel> Write() {
    const std::string body = Body();
    return fits_ ? std::optional(Kernel(body)) : std::nullopt;
  }

 private:
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

  std::string Body() {
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

    const std::string head = DefineRow(
        StrCat("b = (idx_t)blockIdx.x * ", each, " + q / ", rows * serial, ", i8 = q % ", rows,
               " * ", kColumnLanes, " + y * ", serial, " + q / ", rows, " % ", serial, ", "),
        StrCat("b * ", space_.chunk, " + i8"), StrCat("i8 < ", space_.chunk, " && r0 < ", space_.n),
        space_.n);
    const auto looped = RingLoop({.head = head,
                                  .early = emitter_.TakeEarlyInvariant(),
                                  .row_values = ring_loads_.values,
                                  .loads = ring_loads_.row,
                                  .alike_loads = ring_loads_.alike,
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
      declare += DeclareColumns(shape, k);
      reset += ResetColumns(shape, k);
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

  const CudaLimits& limits_;
};

}  // namespace

std::optional<EmittedKernel> EmitRing(const RegionParts& parts, const CudaLimits& limits) {
  return RingWriter(parts, limits).Write();
}

}  // namespace stator
