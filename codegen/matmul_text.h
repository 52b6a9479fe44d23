// The CUDA text of our own matrix product, which the kernels of product regions stand on
// (codegen/emit_matmul.cc). For sm_90a alone.
#pragma once

#include <string>

namespace stator {

// Rows of a tile, and the elements along K of one stage: a row of 128 bytes.
inline constexpr int kTileRows = 128;
inline constexpr int kTileDepth = 64;
// Blocks that share what they read of B.
inline constexpr int kTileCluster = 2;
// A warp that loads, in a group of four so that it can give up registers, and two groups that
// multiply.
inline constexpr int kTileThreads = 384;
// Columns that a thread takes to its epilogue at once belong to so many that four threads share.
inline constexpr int kTileGroup = 32;

// Shared memory of a block, bytes; `chunk`: rows that a fold takes together, 0 without one.
int TileBytes(int columns, int stages, int chunk);

// Helpers and `st_product` for tiles of `columns` columns, to follow the prelude.
std::string MatMulText(int columns);

}  // namespace stator
