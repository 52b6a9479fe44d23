// The CUDA text of our own matrix product for few elements, which the kernels of small product
// regions stand on (codegen/emit_small_product.cc).
#pragma once

#include <string>

namespace stator {

// Threads and bytes of shared memory of a block whose tile is `rows` x `columns` of a product over
// `depth`; `by_rows`: B is stored as [N, K].
int SmallProductThreads(int rows);
int SmallProductBytes(int rows, int columns, int depth, bool by_rows);

// `st_small_product`, to follow the prelude.
std::string SmallProductText();

}  // namespace stator
