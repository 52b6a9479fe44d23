// A Plan is everything the runtime needs to run a compiled model, as plain data: one state table,
// programs over it, kernels as source and binary. It knows nothing of graphs.
#pragma once

#include "ir/space.h"
#include "ir/target.h"
#include "ir/type.h"

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace stator {

struct BufferRef {
  Space space = Space::kNone;
  int64_t offset = 0;  // bytes
  explicit operator bool() const { return space != Space::kNone; }
  bool operator==(const BufferRef&) const = default;
};

// A strided tensor in a buffer, as library calls take it.
struct TensorRef {
  BufferRef buffer;
  Type type;
  Dims strides;  // elements, one an axis
  explicit operator bool() const { return static_cast<bool>(buffer); }
};

// How a kernel's bulk copies see an operand: a box of `box` elements, one extent an axis, at any
// place of `tensor`, whose strides need not fall; what lies outside reads as zero. In shared memory
// boxes are rows of 128 bytes, swizzled. The loader makes a tensor map of it, which the kernel
// takes by value.
struct TileMap {
  TensorRef tensor;
  Dims box;
};

// A generated kernel. On a CPU: `void name(void* const* args)`, its own loops and threads. On a
// GPU: `name(maps..., args...)`, one pointer an argument, sizes baked in.
struct KernelCall {
  int kernel = 0;  // index into Plan::kernels
  std::vector<BufferRef> args;
  int64_t grid[3] = {1, 1, 1};  // blocks
  int block = 1;                // threads
  int shared_bytes = 0;         // dynamic shared memory
  bool table = false;  // on a GPU: all pointers are one argument, an array of them by value
  std::vector<TileMap> maps{};  // on a GPU of sm_90 and later
  int cluster = 1;              // blocks that run together, as the kernel was compiled
  bool persistent = false;      // blocks take turns: the loader launches no more than run at once
};

enum class Epilogue : int { kNone, kBias, kGeluTanhAux, kBiasGeluTanhAux };

// d = a x b (+ c) with leading batch axes: a [.., M, K], b [.., K, N], c and d [.., M, N].
// Transposition is in the strides. f32 accumulation, rounded once to d's dtype.
struct MatMulCall {
  TensorRef a, b, d;
  TensorRef c;     // absent, or added (beta = 1); may be d itself
  TensorRef bias;  // [N], with an epilogue that takes one
  TensorRef aux;   // [M, N], written by the *Aux epilogues: the value before the activation
  Epilogue epilogue = Epilogue::kNone;
  std::string tuning_key;  // names the algorithm choice in the tuning file
};

// ir op `attention` / `attention_grad`; absent tensors have no buffer.
struct AttentionCall {
  bool backward = false;
  TensorRef q, k, v, bias, q_segments, k_segments, key_lengths, seed, step;
  TensorRef out, lse;  // results of forward, operands of backward
  TensorRef dout, dlse, dq, dk, dv, dbias;
  bool causal = false;
  int64_t window = 0;  // 0: none
  double scale = 1;    // resolved: never 0
  int64_t q_offset = 0;
  double dropout = 0;
  int64_t stream = 0;
  bool deterministic = true;
  int64_t batch_chunk = 0;  // batch entries a library call takes at once; 0: all
  int64_t head_chunk = 0;   // of one entry: key heads, each with its query heads; 0: all
  BufferRef workspace;
  int64_t workspace_bytes = 0;
};

// Stable sort of every row of keys [rows, n]; NaN last.
struct SortCall {
  TensorRef keys, values, indices;  // dense; `values` may be absent
  bool descending = false;
  BufferRef workspace;
  int64_t workspace_bytes = 0;
};

// out[rows, width] = sums of the updates [n, width] whose indices [n] name the row, in the order of
// increasing position by the column rule of ir/reduce_tree.h; rows without updates are zero.
struct SegmentSumCall {
  TensorRef updates, indices, out;
  BufferRef workspace;
  int64_t workspace_bytes = 0;
  bool accumulate = false;  // add to what `out` holds
};

struct FillCall {
  BufferRef buffer;
  int64_t bytes = 0;
  int value = 0;  // of every byte
};

struct CopyCall {
  BufferRef from, to;
  int64_t bytes = 0;
};

using StepWork = std::variant<KernelCall, MatMulCall, AttentionCall, SortCall, SegmentSumCall,
                              FillCall, CopyCall>;

struct PlanStep {
  std::string name;   // op or region: "matmul", "layer_norm+add"
  std::string scope;  // "h.3/mlp/up"
  StepWork work;
  int stream = 0;
  std::vector<int> waits;  // earlier steps on other streams that must have finished
  double flops = 0;
  double bytes = 0;  // read and written at least, by the IR (codegen/traffic.h)
};

struct PlanInput {
  std::string name;
  Type type;
  BufferRef buffer;
  int64_t below = 0;  // > 0: integer elements must be in [0, below), or `ignored`
  int64_t ignored = 0;
  bool has_ignored = false;
};

struct PlanOutput {
  std::string name;
  Type type;
  BufferRef buffer;
};

// One entry point: "train", "accumulate", "update", "evaluate", "forward".
struct Program {
  std::string name;
  std::vector<PlanInput> inputs;
  std::vector<PlanOutput> outputs;
  std::vector<PlanStep> steps;
  int64_t arena_bytes = 0;  // its own peak
};

struct StateEntry {
  std::string name;
  Type type;
  int64_t offset = 0;  // bytes in the state space
  std::string role;    // "parameter", "moment", "gradient", "counter", ...
  std::string group;
  std::string init;
  bool trainable = false;
  bool derived = false;  // rebuilt from others (program "derive"); absent from checkpoints
  // f32, of which memory has the bf16s (ir/dtype.h: HighHalf) and, from LowHalves on, the low 16
  // bits.
  bool halves = false;

  int64_t LowHalves() const {
    return AlignBuffer(2 * type.NumElements());
  }  // bytes behind `offset`
  int64_t StoredBytes() const {
    return halves ? LowHalves() + 2 * type.NumElements() : type.Bytes();
  }
};

enum class Language : int { kCpp, kCuda };

// One translation unit of generated kernels.
struct KernelModule {
  Language language = Language::kCpp;
  std::string source;
  std::string key;           // hash of source, architecture and compiler version
  std::vector<char> binary;  // shared object or cubin; filled when the plan is saved
};

struct Kernel {
  std::string name;
  int module = 0;
};

struct Plan {
  std::string name;
  DeviceKind device = DeviceKind::kCpu;
  std::string target;                              // "cpu-avx512", "sm_90"
  std::map<std::string, std::string> fingerprint;  // library versions it was made with
  std::vector<StateEntry> states;
  int64_t state_bytes = 0;
  int64_t arena_bytes = 0;  // of the largest program
  int64_t io_bytes = 0;
  std::vector<KernelModule> modules;
  std::vector<Kernel> kernels;
  std::vector<Program> programs;
  std::vector<std::string> notes;  // decisions a user should know, a line each

  const Program* FindProgram(std::string_view name) const;
  const StateEntry* FindState(std::string_view name) const;
};

// Throws `Error` naming the step when a buffer is outside its space or misaligned, a kernel or
// module is missing, shapes do not fit, the result of a library call overlaps its operands, or two
// states, inputs or outputs overlap.
void VerifyPlan(const Plan& plan);

// The flatbuffers file (codegen/plan.fbs). LoadPlan verifies the bytes, then the plan; throws
// `Error` (kIo, kParse) naming the file.
void SavePlan(const Plan& plan, const std::string& path);
Plan LoadPlan(const std::string& path);

// Text for people: `stator plan`'s listing, steps with sizes, the arena to the byte.
std::string DescribePlan(const Plan& plan, bool steps);
// "kernel k_add_mul, 3 buffers", "matmul f32[4,8] x f32[8,2] -> f32[4,2]": a step's work, in a
// phrase.
std::string DescribeWork(const Plan& plan, const PlanStep& step);

}  // namespace stator
