// Rows too long for registers, most of which a kernel reads more than once: the cross-entropy of a
// large vocabulary. A cluster of blocks takes a row, so that all of it is in their shared memory
// and comes from global memory once; the little that may be left over comes again for every sweep,
// from the cache. Each thread copies the vectors that it will read itself; as soon as it has read
// one for the last time the copy of the next row's goes on its way to the same place, so that the
// memory stays busy while rows are folded.
//
// The lanes of ir/reduce_tree.h would leave a block too few threads: only folds that promise no
// tree (log-sum-exps) are done here. How their elements are combined depends on the length of the
// row alone; a region that does not fit combines them by the tree (the op's `tolerance`).
#include "codegen/emit_region.h"
#include "codegen/placed_vectors.h"
#include "ir/base/error.h"
#include "ir/reduce_tree.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace stator {
namespace {

constexpr int64_t kShortest = 16384;  // elements; shorter rows fit registers, or nearly
constexpr int64_t kMostOfBlock =
    64 << 10;  // elements, so that two blocks of bf16 share a multiprocessor
constexpr int64_t kVector = 8;
constexpr int64_t kRest =
    2 << 10;  // bytes of a block: the system's and what folds leave for each other
constexpr int64_t kThreads = 512;
constexpr int64_t kMostAgain = 64;  // bytes of a thread's vectors that no shared memory holds
// Rows that a cluster takes one after the other. The next one's copies help where blocks wait for
// each other; a block alone is sooner done with one row, and the next block begins meanwhile.
constexpr int64_t kRowsOfCluster = 2;

class LongRowsWriter {
 public:
  LongRowsWriter(const RegionParts& parts, const CudaLimits& limits, int64_t cluster)
      : parts_(parts),
        space_(parts.space),
        limits_(limits),
        cluster_(cluster),
        part_(space_.n / cluster),
        emitter_(args_) {}

  // Nothing where the row needs more than the blocks have, or is not all vectors.
  std::optional<EmittedKernel> Write() {
    IndexSpace& vars = emitter_.vars();
    const IndexExpr row = vars.AddVar("r", space_.outer, kInvariant),
                    part = vars.AddVar("p", cluster_, kInvariant);
    const IndexExpr chunk = vars.AddVar("e", part_ / kVector, kChunkDepth),
                    lane = vars.AddVar("v", kVector, kLaneDepth);
    const IndexExpr full = row * space_.n + part * part_ + chunk * kVector + lane;
    ElementEmitter::Options o;
    o.language = Language::kCuda;
    o.space = space_, o.inside = parts_.inside;
    o.vector = kVector, o.lane_var = lane.terms[0].first;
    o.early = o.place = true;
    emitter_.SetOptions(o);

    for (const Value& v : parts_.picks) emitter_.Emit(v, row);
    positions_ = emitter_.TakeEarlyInvariant();
    const std::string early_picks = positions_, picks = emitter_.TakeInvariant();
    std::vector<Sweep> sweeps(parts_.sweeps);
    for (int s = 0; s < parts_.sweeps; ++s) {
      if (!WriteSweep(s, full, row, &sweeps[s])) return std::nullopt;
    }
    // What is picked is waited for while the row is read, where that needs nothing of it.
    Sweep& first = sweeps[0];
    const bool at_once = !Needed(first.before + first.body + loads_, picks).empty();
    (at_once ? first.before : first.after).insert(0, picks);
    first.before.insert(0, early_picks);
    positions_ = Needed(loads_, positions_);
    for (const Value& v : parts_.row_outputs) emitter_.Store(v, row, emitter_.Emit(v, row));
    const std::string outputs = emitter_.TakeEarlyInvariant() + emitter_.TakeInvariant();
    return FitMemory() ? std::optional(Kernel(sweeps, outputs)) : std::nullopt;
  }

 private:
  // A sweep over a row: text before and after the loop over its vectors, and what that does with
  // each.
  struct Sweep {
    std::string before, body, after;
  };

  bool WriteSweep(int s, const IndexExpr& full, const IndexExpr& row, Sweep* sweep) {
    emitter_.BeginSweep();
    std::string declare, add;
    std::vector<std::pair<Node*, std::string>> totals;
    for (Node* f : parts_.row_folds[s]) {
      const std::string op = FoldOp(*f), acc = emitter_.NewName("f"), total = emitter_.NewName("x");
      const std::string x = emitter_.Emit(f->operand(0), full);
      emitter_.AddLine(kChunkDepth, StrCat("float ", acc, "v[", kVector, "];"));
      emitter_.AddLine(kLaneDepth, StrCat(acc, "v[v] = ", x, ";"));
      declare += StrCat(op, "::acc ", acc, " = ", op, "::identity();\n");
      add += StrCat(acc, " = st_add_elements(", acc, ", ", acc, "v);\n");
      sweep->after += StrCat("const float ", total, " = ", op, "::result(st_fold_cluster<", op,
                             ", T, ", cluster_, ">(", acc, ", t, p, turn));\n");
      totals.push_back({f, total});
    }
    if (s + 1 == parts_.sweeps) StoreFull(emitter_, parts_, full);
    loads_ += emitter_.TakeEarlyChunk();
    const std::string early = emitter_.TakeEarlyInvariant();
    positions_ += early;
    sweep->before = early + emitter_.TakeInvariant() + declare;
    sweep->body = emitter_.TakeChunk();
    const std::string lanes = emitter_.TakeLane();
    sweep->body += Lanes(lanes, emitter_.TakeAfterLane()) + add;
    for (const auto& [f, total] : totals) emitter_.Define(f->result(), row, total);
    return emitter_.TakeKeptDeclarations().empty() && emitter_.TakeEarlyDeclarations().empty();
  }

  // The loop over the lanes of a vector and what follows; once more without tests of lanes, for the
  // many vectors where none is it.
  std::string Lanes(const std::string& text, const std::string& after) const {
    if (text.empty()) return after;
    const auto loop = [&after](const std::string& body) {
      return Unrolled("v", kVector, body) + after;
    };
    std::string without = text, any;
    for (const ElementEmitter::LaneTest& test : emitter_.lane_tests()) {
      const size_t at = without.find(test.line);
      if (at == std::string::npos) continue;
      without.replace(at, test.line.size(), StrCat("const bool ", test.variable, " = false;\n"));
      any += StrCat(any.empty() ? "" : " || ", test.any);
    }
    if (any.empty()) return loop(text);
    return StrCat("if (", any, ") {\n", Indent(loop(text), 2), "} else {\n",
                  Indent(loop(without), 2), "}\n");
  }

  // How many blocks share a multiprocessor, and how many of a thread's vectors are in shared
  // memory: two blocks, where they fit, so that one keeps the memory busy while the other folds.
  bool FitMemory() {
    int64_t bytes = 0;  // of a vector of each operand
    for (const auto& p : emitter_.placed_vectors()) bytes += p.bytes;
    if (bytes == 0) return false;
    blocks_ = std::clamp<int64_t>(limits_.shared_bytes / (part_ / kVector * bytes + kRest), 2, 4);
    for (; blocks_ > 0; --blocks_) {
      shared_ = std::min(chunks_, (limits_.shared_bytes / blocks_ - kRest) / (kThreads * bytes));
      if ((chunks_ - shared_) * bytes <= kMostAgain) return true;
    }
    return false;
  }

  EmittedKernel Kernel(const std::vector<Sweep>& sweeps, const std::string& outputs) {
    const int64_t rows = space_.outer, vectors = part_ / kVector;
    const int64_t each = cluster_ == 1 ? 1 : kRowsOfCluster;
    const std::string define_e = "const idx_t e = c * T + t;\n(void)e;\n",
                      inside = vectors % kThreads == 0
                                   ? ""
                                   : StrCat("(c + 1 < ", chunks_, " || e < ", vectors, ")");
    const PlacedVectors placed(emitter_, std::min(vectors, shared_ * kThreads));

    const std::string fetch = StrCat(
        "const auto fetch = [&](idx_t r, int c) {\n",
        Indent(StrCat(define_e, "if (r < end", inside.empty() ? "" : " && " + inside, ") {\n",
                      Indent(positions_ + placed.Places(false, "st_shared") + loads_, 2),
                      "}\nst_commit();\n"),
               2),
        "};\n");
    std::string row;
    for (size_t s = 0; s < sweeps.size(); ++s) {
      const bool last = s + 1 == sweeps.size();
      std::string body = If(inside, Reads(placed, s, sweeps[s].body) + sweeps[s].body);
      if (s == 0)
        body =
            StrCat("if (c < ", shared_, ") st_wait_for(", shared_ - 1, last ? "" : " - c", ");\n") +
            body;
      if (last) body += StrCat("if (c < ", shared_, ") fetch(r + 1, c);\n");
      row += sweeps[s].before + Rest(s, define_e, inside) +
             Unrolled("c", chunks_, define_e + body) + sweeps[s].after;
    }
    row +=
        StrCat("if (", cluster_ == 1 ? "" : "p == 0 && ", "t == 0) {\n", Indent(outputs, 2), "}\n");

    const std::string head = StrCat(
        "  st_begin();\n  typedef ", parts_.wide_index ? "long long" : "int",
        " idx_t;\n  constexpr int T = ", kThreads,
        ";\n  extern __shared__ __align__(16) unsigned char st_shared[];\n  const int t = "
        "threadIdx.x;\n  const idx_t p = blockIdx.x % ",
        cluster_, ", first = (idx_t)(blockIdx.x / ", cluster_, ") * ", each, ", end = first + ",
        each, " < ", rows, " ? first + ", each, " : ", rows, ";\n  (void)p;\n  int turn = 0;\n");
    EmittedKernel kernel;
    kernel.body = StrCat("extern \"C\" __global__ void ",
                         cluster_ == 1 ? "" : StrCat("__cluster_dims__(", cluster_, ", 1, 1) "),
                         "__launch_bounds__(", kThreads, ", ", blocks_, ") ", kKernelName, "(",
                         args_.Declaration(), ") {\n", head,
                         Indent(fetch + Unrolled("c", shared_, "fetch(first, c);\n"), 2),
                         cluster_ == 1 ? "" : "  st_meet_cluster();\n",
                         "  for (idx_t r = first; r < end; ++r) {\n", Indent(row, 4), "  }\n}\n");
    kernel.args = args_.all();
    kernel.grid = (rows + each - 1) / each * cluster_;
    kernel.block = static_cast<int>(kThreads);
    kernel.shared_bytes = static_cast<int>(placed.Bytes(false));
    kernel.cluster = static_cast<int>(cluster_);
    return kernel;
  }

  // Vector `e` of the operands that `text` mentions.
  std::string Reads(const PlacedVectors& placed, size_t s, const std::string& text) const {
    if (shared_ == chunks_) return placed.Reads(text, "st_shared");
    std::string out;
    for (const auto& p : emitter_.placed_vectors()) {
      if (!Mentions(text, p.name)) continue;
      out += StrCat("st_vec<", p.type, "> ", p.name, ";\nif (c < ", shared_, ") ", p.name, " = ",
                    placed.Place(p, "st_shared"), ".get(); else ", p.name, " = ", p.name, "r", s,
                    "[c - ", shared_, "];\n");
    }
    return out;
  }

  // Loads the vectors that no shared memory holds, ahead of the loop that uses them at its end.
  std::string Rest(size_t s, const std::string& define_e, const std::string& inside) const {
    if (shared_ == chunks_) return "";
    std::string declare, load;
    for (const auto& p : emitter_.placed_vectors()) {
      declare += StrCat("st_vec<", p.type, "> ", p.name, "r", s, "[", chunks_ - shared_, "];\n");
      load += StrCat("auto& ", p.name, " = ", p.name, "r", s, "[c - ", shared_, "];\n");
    }
    load = If(inside, load + loads_);
    return declare + StrCat("#pragma unroll\nfor (int c = ", shared_, "; c < ", chunks_,
                            "; ++c) {\n", Indent(define_e + positions_ + load, 2), "}\n");
  }

  const RegionParts& parts_;
  const RegionSpace& space_;
  const CudaLimits& limits_;
  const int64_t cluster_, part_;  // blocks of a row, elements of a block
  KernelArgs args_;
  ElementEmitter emitter_;
  std::string positions_, loads_;  // what loads need, and the loads of vector `e` of row `r`
  const int64_t chunks_ =
      (part_ / kVector + kThreads - 1) / kThreads;  // a thread's vectors of an operand
  int64_t shared_ = 1;                              // of those in shared memory
  int64_t blocks_ = 1;                              // of a multiprocessor
};

bool PromisesNoTree(const RegionParts& parts) {
  bool any = false;
  for (const auto& folds : parts.row_folds) {
    for (const Node* f : folds) {
      if (f->view().Str("kind") != "logsumexp" || f->type().dtype != DType::kF32) return false;
      any = true;
    }
  }
  return any;
}

}  // namespace

std::optional<EmittedKernel> EmitLongRows(const RegionParts& parts, const CudaLimits& limits) {
  const RegionSpace& space = parts.space;
  if (space.kind != SpaceKind::kRow || space.chunks() != 1 || space.row_length() < kShortest ||
      !PromisesNoTree(parts))
    return std::nullopt;
  const int64_t cluster =
      std::min(limits.cluster, BitCeil((space.row_length() + kMostOfBlock - 1) / kMostOfBlock));
  if (space.row_length() % (cluster * kVector) != 0) return std::nullopt;
  return LongRowsWriter(parts, limits, cluster).Write();
}

}  // namespace stator
