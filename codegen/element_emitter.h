// Emits the C text that computes one element of a region's values, pulling operands through views
// and cheap inline nodes. What varies in no loop, with the chunk, and with the lane of a sweep goes
// to separate streams, which the region emitters arrange into loops.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/plan.h"
#include "ir/base/str.h"
#include "ir/index_expr.h"
#include "ir/region.h"

namespace stator {

// Pointers of a kernel, in argument order.
class KernelArgs {
 public:
  // The parameter that holds `base`'s storage.
  std::string Read(Value base);
  std::string Write(Value result);
  // "const float* a0, st_bf16* a1".
  std::string Declaration() const;
  // The same as casts from `void* const* args`.
  std::string Unpacking() const;
  const std::vector<Value>& values() const { return values_; }

 private:
  std::string Add(Value v, bool write);
  std::vector<Value> values_;
  std::vector<bool> writes_;
};

// How deep in a sweep's loops a piece of text varies.
enum Depth : int { kInvariant = 0, kChunkDepth = 1, kLaneDepth = 2 };

class ElementEmitter {
 public:
  struct Options {
    Language language = Language::kCpp;
    RegionSpace space;
    std::set<const Node*> inside;
    int vector = 1;            // elements of a vector access (CUDA)
    int lane_var = -1;         // index of the variable that runs over them
    bool keep = false;         // row sweeps: keep loads and expensive values between sweeps
    std::string lane_index;    // "[c][v]" on CUDA, "[j]" on a CPU: of values kept between sweeps
    std::string kept_extent;   // "[3][8]", "[1024]"
    std::string chunk_index;   // "[c]": the kept vector of a chunk (CUDA)
  };

  explicit ElementEmitter(KernelArgs& args);
  void SetOptions(Options options) { options_ = std::move(options); }
  IndexSpace& vars() { return vars_; }

  // The C text (a variable or literal in the compute type) of `v` at row-major position `at`.
  std::string Emit(Value v, const IndexExpr& at);
  // How deep the text of the last Emit varies.
  int last_depth() const { return last_depth_; }
  // A node's result that the caller has computed: folds, once a row.
  void Define(Value v, const IndexExpr& at, const std::string& text);
  // Stores `text` to result `v` at `at`; vectorized on CUDA when it can be.
  void Store(Value v, const IndexExpr& at, const std::string& text);

  // Forgets everything that varies within a sweep.
  void BeginSweep();

  // Streams since the last Take*: text at each depth, kept-value declarations, stores after lanes.
  std::string TakeInvariant();
  std::string TakeChunk();
  std::string TakeLane();
  std::string TakeAfterLane();
  std::string TakeKeptDeclarations();
  // The depth at which an index varies.
  int DepthOf(const IndexExpr& at) const { return vars_.Depth(at); }
  std::string NewName(const char* prefix) { return StrCat(prefix, next_name_++); }
  void AddLine(int depth, const std::string& line);

 private:
  std::string EmitNode(Value v, const IndexExpr& at, int* depth);
  std::string EmitLoad(Value base, const IndexExpr& at, int* depth);
  std::string EmitConcat(const Node& node, const IndexExpr& at, int* depth);
  std::string EmitPad(const Node& node, const IndexExpr& at, int* depth);
  std::string EmitGather(const Node& node, const IndexExpr& at, int* depth);
  std::string EmitTakeAlong(const Node& node, const IndexExpr& at, int* depth);
  std::string EmitRandom(const Node& node, const IndexExpr& at, int* depth);
  IndexExpr DataIndex(const Node& node, Value indices, const IndexExpr& at, int64_t limit);
  // Whether `at` steps through consecutive, aligned elements along the lanes.
  bool IsVector(const IndexExpr& at) const;
  bool IsOutside(const Node& node) const;

  KernelArgs& args_;
  Options options_;
  IndexSpace vars_;
  std::string streams_[3], after_lane_, kept_;
  struct Known {
    std::string text;
    int depth;
    bool kept;  // survives BeginSweep
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
};

}  // namespace stator
