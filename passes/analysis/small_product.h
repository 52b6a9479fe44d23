// Matrix products of so few elements that a launch takes longer than they do: our own kernel has
// them sooner than a library's, alone or with what reads them.
#pragma once

#include "ir/graph.h"
#include "passes/pass.h"

#include <optional>

namespace stator {

// Whether our own kernels take such products at all: whether regions fuse or not, so that both
// plans give the same bits. (The order of a sum depends on the depth alone.)
bool TakesSmallProducts(const PassOptions& options);

// Whether rows of [rows, columns] lie at addresses that 16 bytes are copied from at a time.
bool HasAlignedRows(Value v);

// Rows and columns of the product that a block takes; nothing where it is not such a product.
// `fold_chunk`: rows that a fold takes together, 0 without one.
std::optional<Dims> SmallTileOf(const Node& product, int64_t fold_chunk);

}  // namespace stator
