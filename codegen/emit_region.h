// Emits the kernel of a fused region.
#pragma once

#include "codegen/element_emitter.h"
#include "codegen/kernel_text.h"
#include "codegen/plan.h"
#include "codegen/traffic.h"
#include "ir/region.h"

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace stator {

// An operand that the kernel reads by bulk copies: as plan.h's TileMap, of what `value` is a view
// on.
struct EmittedMap {
  Value value;
  Dims shape, strides, box;
};

struct EmittedKernel {
  std::string body;       // the function, named by kKernelName
  std::string helpers{};  // what it needs besides the prelude: then it has a module of its own
  std::vector<KernelArg> args;     // the parameters, in order
  int64_t grid = 1;                // blocks (CUDA)
  int block = 1;                   // threads a block (CUDA)
  int shared_bytes = 0;            // dynamic shared memory a block (CUDA)
  std::vector<EmittedMap> maps{};  // the parameters before `args` (CUDA)
  int cluster = 1;
  bool persistent = false;  // see KernelCall
  Traffic traffic{};
};

// What kernels are shaped for.
struct CudaLimits {
  int64_t shared_bytes =
      0;  // shared memory of a multiprocessor; 1 KiB a block is not the program's
  int64_t multiprocessors = 1;
  int64_t cluster = 1;  // blocks that can read each other's shared memory
};
// Of a usual device of compute capability `sm`: 90.
CudaLimits LimitsOf(int sm);

// Stands for the kernel's name in `body`, so that equal kernels have equal text.
inline constexpr std::string_view kKernelName = "@KERNEL@";

EmittedKernel EmitRegion(std::span<Node* const> nodes, Language language, const CudaLimits& limits);
// One scan node.
EmittedKernel EmitScan(const Node& node, Language language);

// What a region computes, arranged for emission.
struct RegionParts {
  RegionSpace space;
  std::set<const Node*> inside;
  std::vector<std::vector<Node*>> row_folds;  // by sweep
  std::vector<Node*> column_folds;
  std::vector<Value> full_outputs, row_outputs;
  std::vector<Node*> assembled;  // concats, each part of which is an output on every element
  std::vector<Value>
      picks;  // single elements of a row, to be read before a sweep may overwrite them
  int sweeps = 1;
  Node* product = nullptr;  // a matrix product that the kernel computes itself, where there is one
  bool wide_index = false;  // some tensor has 2^31 elements or more
};
RegionParts AnalyzeRegion(std::span<Node* const> nodes);

// For kernels of products: the region's iteration space, rows of vectors of `vector` columns, whose
// element is the product's where the text has `p[v]`; its outputs are computed and stored. What it
// loads goes to `slots` at `slot`. The position of an element.
IndexExpr BeginEpilogue(ElementEmitter& emitter, const RegionParts& parts, int vector,
                        const std::string& slot, const std::string& slots);
// Computes and stores all outputs that live on every element.
void StoreFull(ElementEmitter& emitter, const RegionParts& parts, const IndexExpr& full);

// "st_sum<float>" for a fold, and the type that it accumulates in.
std::string FoldOp(const Node& fold);
std::string FoldType(const Node& fold);

EmittedKernel EmitCpp(const RegionParts& parts);
EmittedKernel EmitCuda(const RegionParts& parts, const CudaLimits& limits);
// EmitCuda's, by kind of space: elements; rows, folded along columns too or not; columns.
EmittedKernel EmitPointwise(const RegionParts& parts);
EmittedKernel EmitRows(const RegionParts& parts);
EmittedKernel EmitColumns(const RegionParts& parts);
// Of rows that are folded along columns too; nothing where a ring of rows does not fit.
std::optional<EmittedKernel> EmitRing(const RegionParts& parts, const CudaLimits& limits);
// Of long rows whose folds follow no tree; nothing where the region or the device is not made for
// it.
std::optional<EmittedKernel> EmitLongRows(const RegionParts& parts, const CudaLimits& limits);
// Of a region with a product, for sm_90; of one with few elements.
EmittedKernel EmitMatMul(const RegionParts& parts);
EmittedKernel EmitSmallProduct(const RegionParts& parts);

}  // namespace stator
