// Emits the C text that computes one element of a region's values, pulling operands through views
// and cheap inline nodes. What varies in no loop, with the chunk, and with the lane of a sweep goes
// to separate streams, which the region emitters arrange into loops. Loads that need no arithmetic
// first can be had apart from the rest ("early"), so that many are under way before the first is
// used.
#pragma once

#include "codegen/kernel_args.h"
#include "codegen/plan.h"
#include "ir/base/str.h"
#include "ir/index_expr.h"
#include "ir/region.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace stator {

// How deep in a sweep's loops a piece of text varies.
enum Depth : int { kInvariant = 0, kChunkDepth = 1, kLaneDepth = 2 };

class ElementEmitter {
 public:
  struct Options {
    Language language = Language::kCpp;
    RegionSpace space;
    std::set<const Node*> inside;
    int vector = 1;     // elements of a vector access (CUDA)
    int lane_var = -1;  // index of the variable that runs over them
    bool keep = false;  // row sweeps: keep loads and expensive values between sweeps
    bool keep_alike =
        false;  // with `keep`: what all rows read alike too, so that it is loaded early
    std::string lane_index;   // "[c][v]" on CUDA, "[j]" on a CPU: of values kept between sweeps
    std::string kept_extent;  // "[3][8]", "[1024]"
    // CUDA: loads go to streams of their own, into arrays of `slots` ("[3]") at `slot` ("[c]").
    // With `keep` they outlive the sweep, but for what all rows read alike.
    bool early = false;
    std::string slot, slots;
    // CUDA: the caller has places for a row's own vectors, which are kept between sweeps whatever
    // `keep` says, and for those that all rows read alike; they are named without a slot
    // (`placed_vectors`).
    bool place = false;
    bool pack = false;   // narrow results are kept for later sweeps, packed as they are stored
    int chunk_var = -1;  // index of the variable that counts a row's vectors
    // Rows that are too long for registers: bytes of shared memory that may hold the first chunks
    // of `shared_threads` vectors each, for later sweeps.
    int64_t shared_bytes = 0, shared_threads = 1, shared_chunks = 0;
    bool share = false;
  };

  explicit ElementEmitter(KernelArgs& args);
  void SetOptions(Options options) { options_ = std::move(options); }
  // Whether a later sweep may read again what is loaded now (`shared_bytes`).
  void ShareLoads(bool share) { options_.share = share; }
  // Whether a later sweep may read again what is computed now (`pack`).
  void PackResults(bool pack) { options_.pack = pack; }
  IndexSpace& vars() { return vars_; }

  // The C text (a variable or literal in the compute type) of `v` at row-major position `at`.
  std::string Emit(Value v, const IndexExpr& at);
  // How deep the text of the last Emit varies.
  int last_depth() const { return last_depth_; }
  // A node's result that the caller has computed: folds, once a row; products, on every element.
  void Define(Value v, const IndexExpr& at, const std::string& text, int depth = kInvariant);
  // Stores `text` to result `v` at `at`; vectorized on CUDA when it can be.
  void Store(Value v, const IndexExpr& at, const std::string& text);
  // Computes `v` and stores it. What is rounded to be stored alone is rounded by the store, two at
  // once.
  void EmitAndStore(Value v, const IndexExpr& at) { EmitAndStore(v, at, v, at); }
  // The same of `value` at `from`, stored as result `v` at `at`.
  void EmitAndStore(Value value, const IndexExpr& from, Value v, const IndexExpr& at);

  // Forgets everything that varies within a sweep.
  void BeginSweep();

  // Streams since the last Take*: text at each depth, kept-value declarations, stores after lanes.
  std::string TakeInvariant();
  std::string TakeChunk();
  std::string TakeLane();
  std::string TakeAfterLane();
  std::string TakeKeptDeclarations();
  // Early loads and the positions they need: text that goes before all loops, before the chunk's
  // own text, and declarations that both see.
  std::string TakeEarlyInvariant() { return std::exchange(early_[kInvariant], {}); }
  std::string TakeEarlyChunk() { return std::exchange(early_[kChunkDepth], {}); }
  std::string TakeEarlyDeclarations() { return std::exchange(early_declarations_, {}); }
  // Bytes that a thread's early loads of one chunk bring.
  int64_t early_bytes() const { return early_bytes_; }
  // Loads of what all rows read alike, with `place`.
  std::string TakeAlikeLoads() { return std::exchange(alike_loads_, {}); }
  struct PlacedVector {
    std::string name, type;  // type: "st_bf16, 8"
    int64_t bytes;
    bool alike;  // the same for all rows
  };
  const std::vector<PlacedVector>& placed_vectors() const { return placed_vectors_; }
  std::string TakeSharedDeclarations() { return std::exchange(shared_declarations_, {}); }
  // Tests whether a lane is the one that a vector looks for: the line at lane depth, and what must
  // hold for any lane to be.
  struct LaneTest {
    std::string variable, line, any;
  };
  const std::vector<LaneTest>& lane_tests() const { return lane_tests_; }
  // Arrays of vectors kept between sweeps.
  const std::vector<std::string>& kept_vectors() const { return kept_vectors_; }
  // The depth at which an index varies.
  int DepthOf(const IndexExpr& at) const { return vars_.Depth(at); }
  std::string NewName(const char* prefix) { return StrCat(prefix, next_name_++); }
  void AddLine(int depth, const std::string& line);

 private:
  std::string EmitNode(Value v, const IndexExpr& at, int* depth);
  void StoreVector(Value v, const IndexExpr& at, const std::string& text, const char* store);
  std::string EmitLaneTest(const Node& node, const IndexExpr& at, int* depth);
  std::string EmitLoad(Value base, const IndexExpr& at, int* depth);
  std::string EmitVectorLoad(const std::string& pointer, DType dtype, const IndexExpr& at,
                             bool own = false);
  // Emits `text` and keeps it, packed, for later sweeps. The text of this sweep.
  std::string Pack(Value v, const IndexExpr& at, const std::string& text);
  std::string SharedLoad(const std::string& pointer, DType dtype, const IndexExpr& start,
                         const std::string& target, const std::string& load);
  std::string EmitRowOfParts(const Node& node, const IndexExpr& at, int* depth);
  std::string EmitConcat(const Node& node, const IndexExpr& at, int* depth);
  std::string EmitPad(const Node& node, const IndexExpr& at, int* depth);
  std::string EmitGather(const Node& node, const IndexExpr& at, int* depth);
  std::string EmitTakeAlong(const Node& node, const IndexExpr& at, int* depth);
  std::string EmitRandom(const Node& node, const IndexExpr& at, int* depth);
  IndexExpr DataIndex(const Node& node, Value indices, const IndexExpr& at, int64_t limit);
  // A new variable that holds `text`.
  std::string Variable(int depth, const std::string& type, const std::string& text);
  // `text`, the quotient or remainder of `of` by a constant, or another function of it.
  std::string DivisionText(const IndexExpr& of, const std::string& text) const;
  // Text of a position or a load, at a depth below the lanes'.
  void AddIndexLine(int depth, bool early, const std::string& line);
  void AddLoadLine(int depth, bool early, const std::string& line);
  // Whether `at`, under the guards, is known before any arithmetic.
  bool IsEarly(const IndexExpr& at) const;
  // Whether `at` steps through consecutive, aligned elements along the lanes.
  bool IsVector(const IndexExpr& at) const;
  IndexExpr WithoutLane(const IndexExpr& at) const;
  bool IsOutside(const Node& node) const;

  KernelArgs& args_;
  Options options_;
  IndexSpace vars_;
  std::string streams_[3], after_lane_, kept_;
  std::string early_[2], early_declarations_;
  std::string alike_loads_;
  std::vector<PlacedVector> placed_vectors_;
  int64_t early_bytes_ = 0;
  struct Shared {
    std::string name;
    int64_t chunks;
  };
  std::map<std::string, Shared> shared_;  // by what was loaded
  std::string shared_declarations_;
  std::vector<std::string> kept_vectors_;
  std::vector<LaneTest> lane_tests_;
  std::map<std::string, std::string>
      packed_;                  // by key, the text of a narrow result in later sweeps
  std::set<std::string> late_;  // variables of positions that are computed
  struct Known {
    std::string text;
    int depth;
    bool kept;   // survives BeginSweep
    bool early;  // a load or literal, not computed
  };
  std::map<std::string, Known> memo_;
  // Conditions under which loads are allowed, and how deep they vary: what is loaded under them
  // varies as deep.
  struct Guard {
    std::string text;
    int depth;
  };
  std::string GuardText() const;  // "" without guards
  int GuardDepth() const;
  std::vector<Guard> guards_;
  int next_name_ = 0;
  int last_depth_ = kInvariant;
  bool last_early_ = false;
};

}  // namespace stator
