#include "codegen/row_writer.h"

#include "codegen/scalar.h"
#include "ir/base/error.h"
#include "ir/reduce_tree.h"

#include <algorithm>
#include <set>
#include <utility>

namespace stator {
namespace {

constexpr int64_t kKeepElements = 48;      // of a row held in one thread's registers
constexpr int64_t kSharedRow = 46 << 10;   // bytes of a longer row held in a block's shared memory
constexpr int64_t kFewElements = 1 << 20;  // of a region: its rows' loads all go first

bool Keeps(const RowShape& shape) { return shape.k * shape.v <= kKeepElements; }

std::string DefineE(const RowShape& shape) {
  return StrCat("const idx_t e = c * ", shape.p, " + t;\n(void)e;\n");
}

}  // namespace

RowShape RowWriter::ShapeOfRows() const {
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

void RowWriter::SetChunks(RowShape* s) const {
  s->k = (space_.row_length() + s->p * s->v - 1) / (s->p * s->v);
  s->g = std::min(kRowLanes / (s->p * s->v), BitCeil(s->k));
}

std::string RowWriter::Sweeps(const RowShape& shape, const IndexExpr& start, const IndexExpr& row,
                              const std::string& bound) {
  const int64_t n = space_.row_length();
  const bool keep = Keeps(shape);
  fits_ = fits_ && (keep || !ring_);
  // A vector a thread, and few of them in all: time is what loads take that wait for each other.
  const bool at_first = space_.kind == SpaceKind::kRow && parts_.sweeps > 1 && keep &&
                        shape.k == 1 && space_.elements() <= kFewElements;
  const IndexExpr full = BeginRow(shape, start, at_first);
  const std::string define_e = DefineE(shape), end = bound.empty() ? StrCat(n) : bound;
  const std::string inside =
      bound.empty() && shape.k * shape.p * shape.v == n ? "" : StrCat("e * ", shape.v, " < ", end);
  for (const Value& v : parts_.picks) emitter_.Emit(v, row);
  std::string out, first, finish_before;
  for (int s = 0; s < parts_.sweeps; ++s) {
    emitter_.BeginSweep();
    const bool last = s + 1 == parts_.sweeps;
    emitter_.ShareLoads(!last);
    emitter_.PackResults(keep && !last && shape.v > 1);
    const int64_t bytes = emitter_.early_bytes();
    const size_t kept_before = emitter_.kept_vectors().size();
    Sweep sweep;
    for (Node* f : parts_.row_folds[static_cast<size_t>(s)]) AddRowFold(shape, f, full, &sweep);
    std::string finish = Totals(shape, sweep.totals);
    if (last) {
      StoreFull(emitter_, parts_, full);
      AddColumnFolds(full);
    }
    if (ring_) {
      ring_loads_.row += emitter_.TakeEarlyChunk();
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
    if (ring_ && s == 0) ring_loads_.values = std::exchange(invariant, {});
    out += invariant + emitter_.TakeKeptDeclarations() + sweep.declare;
    const std::string live = last && may_be_dead_ ? "live" : "";
    const std::string condition =
        inside.empty() || live.empty() ? inside + live : StrCat(live, " && ", inside);
    if (keep) {
      const std::string text = sweep.lanes + ChunkBody(shape.v) + sweep.combine,
                        body = If(condition, placed().Reads(text, "ring") + text);
      if (!body.empty()) out += Chunks(shape.k, define_e + body);
    } else {
      out += Stream(shape, define_e, condition, end, bytes);
    }
    finish_before = std::move(finish);
    for (const RowTotal& t : sweep.totals) emitter_.Define(t.value, row, t.total);
  }
  out += finish_before;
  for (const Value& v : parts_.row_outputs) emitter_.Store(v, row, emitter_.Emit(v, row));
  out += If(may_be_dead_ ? "live && t == 0" : "t == 0", emitter_.TakeInvariant());
  if (ring_) {
    const auto copied = [&](bool alike, const std::string& loads) {
      return Chunks(shape.k, define_e + If(inside, placed().Places(alike, "ring") + loads));
    };
    ring_loads_.row = copied(false, ring_loads_.row);
    const std::string alike = emitter_.TakeAlikeLoads();
    if (!alike.empty()) ring_loads_.alike = If("y == 0", copied(true, alike));
    return out;
  }
  return emitter_.TakeSharedDeclarations() + emitter_.TakeEarlyInvariant() + first + out;
}

IndexExpr RowWriter::BeginRow(const RowShape& shape, const IndexExpr& start, bool at_first) {
  IndexSpace& vars = emitter_.vars();
  const IndexExpr lane = vars.AddVar("v", shape.v, kLaneDepth),
                  chunk = vars.AddVar("e", space_.row_length() / shape.v, kChunkDepth);
  const bool keep = Keeps(shape);
  ElementEmitter::Options o = Base(shape.v, lane);
  if (!chunk.terms.empty()) o.chunk_var = chunk.terms[0].first;
  o.keep = keep, o.keep_alike = at_first;
  o.place = ring_;
  o.slot = keep ? "[c]" : "[u]";
  o.slots = keep ? StrCat("[", shape.k, "]") : "[ahead]";
  o.lane_index = "[c][v]";
  o.kept_extent = StrCat("[", shape.k, "][", shape.v, "]");
  o.shared_threads = shape.p, o.shared_chunks = shape.k;
  o.shared_bytes = !keep && shape.y == 1 ? kSharedRow : 0;
  emitter_.SetOptions(o);
  return start + chunk * shape.v + lane;
}

void RowWriter::AddRowFold(const RowShape& shape, Node* fold, const IndexExpr& full, Sweep* sweep) {
  const std::string acc = emitter_.NewName("f"), op = FoldOp(*fold), type = FoldType(*fold);
  const std::string x = emitter_.Emit(fold->operand(0), full);
  if (shape.g >= shape.k) {  // every lane has one element: combined with its neighbours at once
    sweep->declare += StrCat(type, " ", acc, "[", shape.k, "];\n",
                             Unrolled("c", shape.k, StrCat(acc, "[c] = ", op, "::identity();\n")));
    sweep->lanes += StrCat(type, " ", acc, "v[", shape.v, "];\n");
    emitter_.AddLine(kLaneDepth, StrCat(acc, "v[v] = ", x, ";"));
    sweep->combine += StrCat(acc, "[c] = st_fold_vector<", op, ">(", acc, "v);\n");
  } else {
    sweep->declare +=
        StrCat(type, " ", acc, "[", shape.g, "][", shape.v, "];\n",
               Unrolled("c", shape.g,
                        Unrolled("v", shape.v, StrCat(acc, "[c][v] = ", op, "::identity();\n"))));
    const std::string slot =
        StrCat(acc, shape.g == 1 ? "[0]" : StrCat("[c % ", shape.g, "]"), "[v]");
    emitter_.AddLine(kLaneDepth, StrCat(slot, " = ", op, "::of(", slot, ", ", x, ");"));
  }
  sweep->totals.push_back({fold->result(), op, type, acc, emitter_.NewName("x")});
}

void RowWriter::AddColumnFolds(const IndexExpr& full) {
  for (size_t k = 0; k < parts_.column_folds.size(); ++k) {
    const std::string op = FoldOp(*parts_.column_folds[k]);
    const std::string x = emitter_.Emit(parts_.column_folds[k]->operand(0), full);
    emitter_.AddLine(kLaneDepth, StrCat("g", k, "[c][v] = ", op, "::of(g", k, "[c][v], ", x, ");"));
  }
}

std::string RowWriter::Totals(const RowShape& shape, const std::vector<RowTotal>& totals) {
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
    text +=
        StrCat(first.type, " ", all, "[", count, "][", std::min(shape.g, shape.k), "];\n", gather,
               "st_fold_rows<", first.op, ", ", shape.p, ", Y>(", all, ", t, y, turn);\n", results);
  }
  return text;
}

std::string RowWriter::Stream(const RowShape& shape, const std::string& define_e,
                              std::string condition, const std::string& end, int64_t bytes) {
  const int64_t ahead = Ahead(shape.k, bytes);
  if (condition.empty() && shape.k % ahead != 0) condition = StrCat("e * ", shape.v, " < ", end);
  const std::string body =
      LoadThenCompute("ahead", "const int c = c0 + u;\n" + define_e, condition, shape.v);
  if (body.empty()) return "";
  return StrCat("for (int c0 = 0; c0 < ", shape.k, "; c0 += ", ahead,
                ") {\n  constexpr int ahead = ", ahead, ";\n", Indent(body, 2), "}\n");
}

std::string RowWriter::Chunks(int64_t count, const std::string& body) {
  if (count > 1) return Unrolled("c", count, body);
  return StrCat("{\n  constexpr int c = 0; (void)c;\n", Indent(body, 2), "}\n");
}

std::string RowWriter::Threads(const RowShape& shape) {
  return StrCat("const int t = threadIdx.x % ", shape.p, ", y = threadIdx.x / ", shape.p,
                ";\n(void)t; (void)y;\n");
}

std::string RowWriter::DefineRow(const std::string& before, const std::string& at,
                                 const std::string& live, int64_t rows) const {
  if (!may_be_dead_) return StrCat("const idx_t ", before, "r = ", at, ";\n");
  return StrCat("const idx_t ", before, "r0 = ", at, ";\nconst bool live = ", live, ";\n",
                ring_ ? "(void)live;\n" : "", "const idx_t r = live ? r0 : ", rows - 1, ";\n");
}

std::string RowWriter::DeclareColumns(const RowShape& shape, size_t k) const {
  return StrCat(ComputeCType(parts_.column_folds[k]->type().dtype), " g", k, "[", shape.k, "][",
                shape.v, "];\n");
}

std::string RowWriter::ResetColumns(const RowShape& shape, size_t k) const {
  const std::string reset =
      StrCat("g", k, "[c][v] = ", FoldOp(*parts_.column_folds[k]), "::identity();\n");
  return Unrolled("c", shape.k, Unrolled("v", shape.v, reset));
}

}  // namespace stator
