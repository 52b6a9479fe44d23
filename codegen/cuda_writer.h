// What the loop nests for CUDA share. A thread handles V consecutive elements (16 bytes where it
// can) of K chunks.
//
// Memory is far away: what a thread will need goes on its way before anything waits. Loops load
// several chunks or rows, then compute and store them. A store may overwrite what the same thread
// loaded from the same place, never what another one has still to load, so that loads may pass
// stores.
#pragma once

#include "codegen/emit_region.h"

#include <cstdint>
#include <initializer_list>
#include <string>

namespace stator {

class CudaWriter {
 protected:
  static constexpr int kBlock = 256;           // threads of a pointwise or short-row block
  static constexpr int64_t kBytesAhead = 128;  // a thread's loads under way
  static constexpr int64_t kChunksAhead = 4;
  static constexpr int64_t kManyBlocks = 128;  // about the multiprocessors of a large GPU

  explicit CudaWriter(const RegionParts& parts);

  // The kernel around `body`, with the launch that the members below describe.
  EmittedKernel Kernel(const std::string& body) const;

  // The widest vector whose elements fill at most 16 bytes of the narrowest float and that divides
  // every one of `sizes`.
  int64_t Vector(std::initializer_list<int64_t> sizes) const;
  ElementEmitter::Options Base(int64_t vector, const IndexExpr& lane) const;
  // One chunk's worth of text: what does not vary with the lane, lanes, stores.
  std::string ChunkBody(int64_t v);
  // How many of `count` chunks to load at once, by what the emitter has collected since `bytes`.
  int64_t Ahead(int64_t count, int64_t bytes, int64_t most = kChunksAhead) const;
  // Loads `ahead` chunks, does what is `between`, then computes and stores them. `define` gives the
  // chunk's variables in terms of u; loads and the rest happen where `condition` holds.
  std::string LoadThenCompute(const std::string& ahead, const std::string& define,
                              const std::string& condition, int64_t v,
                              const std::string& between = "");
  // Combines the block's column lanes and stores one column a thread: `first` + y * P + t of
  // `count`.
  static std::string StoreColumns(const std::string& op, int64_t p, int64_t v,
                                  const std::string& lanes, const std::string& first, int64_t count,
                                  bool partial, const std::string& out);

  const RegionParts& parts_;
  const RegionSpace& space_;
  KernelArgs args_;
  ElementEmitter emitter_;
  int64_t grid_ = 1;
  int block_ = kBlock;
  int blocks_ = 1;  // at once on a multiprocessor, at least
  int64_t shared_bytes_ = 0;

 private:
  int narrowest_ = 8;  // bytes of the narrowest float
};

}  // namespace stator
