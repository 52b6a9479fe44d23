#include "codegen/cuda_writer.h"

#include "ir/reduce_tree.h"

#include <algorithm>
#include <vector>

namespace stator {

CudaWriter::CudaWriter(const RegionParts& parts)
    : parts_(parts), space_(parts.space), emitter_(args_) {
  const auto note = [this](DType d) {
    if (IsFloat(d)) narrowest_ = std::min<int>(narrowest_, ByteWidth(d));
  };
  for (const Node* n : parts.inside) {
    note(n->type().dtype);
    for (const Value& v : n->operands()) {
      if (v) note(v.dtype());
    }
  }
}

EmittedKernel CudaWriter::Kernel(const std::string& body) const {
  EmittedKernel kernel;
  const std::string bounds = blocks_ > 1 ? StrCat(block_, ", ", blocks_) : StrCat(block_);
  kernel.body = StrCat("extern \"C\" __global__ void __launch_bounds__(", bounds, ") ", kKernelName,
                       "(", args_.Declaration(), ") {\n  st_begin();\n  typedef ",
                       parts_.wide_index ? "long long" : "int", " idx_t;\n", body, "}\n");
  kernel.args = args_.all();
  kernel.grid = grid_;
  kernel.block = block_;
  kernel.shared_bytes = static_cast<int>(shared_bytes_);
  return kernel;
}

int64_t CudaWriter::Vector(std::initializer_list<int64_t> sizes) const {
  int64_t v = narrowest_ <= 2 ? 8 : narrowest_ == 4 ? 4 : 2;
  for (const int64_t size : sizes) {
    while (size % v != 0) v /= 2;
  }
  return v;
}

ElementEmitter::Options CudaWriter::Base(int64_t vector, const IndexExpr& lane) const {
  ElementEmitter::Options o;
  o.language = Language::kCuda;
  o.space = space_;
  o.inside = parts_.inside;
  o.vector = static_cast<int>(vector);
  o.early = true;
  if (!lane.terms.empty()) o.lane_var = lane.terms[0].first;
  return o;
}

std::string CudaWriter::ChunkBody(int64_t v) {
  const std::string chunk = emitter_.TakeChunk(), lane = emitter_.TakeLane();
  return chunk + (lane.empty() ? "" : Unrolled("v", v, lane)) + emitter_.TakeAfterLane();
}

int64_t CudaWriter::Ahead(int64_t count, int64_t bytes, int64_t most) const {
  int64_t ahead = std::min(most, BitCeil(count));
  while (ahead > 1 && ahead * (emitter_.early_bytes() - bytes) > kBytesAhead) ahead /= 2;
  return ahead;
}

std::string CudaWriter::LoadThenCompute(const std::string& ahead, const std::string& define,
                                        const std::string& condition, int64_t v,
                                        const std::string& between) {
  const std::string declare = emitter_.TakeEarlyDeclarations(), loads = emitter_.TakeEarlyChunk();
  const auto loop = [&](const std::string& body) {
    return body.empty() ? ""
                        : StrCat("#pragma unroll\nfor (int u = 0; u < ", ahead, "; ++u) {\n",
                                 Indent(define + If(condition, body), 2), "}\n");
  };
  return declare + loop(loads) + between + loop(ChunkBody(v));
}

std::string CudaWriter::StoreColumns(const std::string& op, int64_t p, int64_t v,
                                     const std::string& lanes, const std::string& first,
                                     int64_t count, bool partial, const std::string& out) {
  std::vector<std::string> tests;
  if (v < 8) tests.push_back(StrCat("y * ", p, " + t < ", p * v));
  if (partial) tests.push_back(StrCat("j < ", count));
  return StrCat("{\n  const auto total = st_fold_columns<", op, ", ", p, ", ", v, ">(", lanes,
                ", t, y);\n", "  const idx_t j = ", first, " + y * ", p, " + t;\n  ",
                tests.empty() ? "" : StrCat("if (", Join(tests, " && "), ") "), "st_put(", out,
                " + j, total);\n}\n");
}

}  // namespace stator
