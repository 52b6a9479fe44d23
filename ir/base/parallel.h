// Independent pieces of work in threads.
#pragma once

#include <cstddef>
#include <functional>

namespace stator {

// Calls `work` with every number below `n`, from as many threads as the machine has at most; 0,
// which should be the largest piece, at once from the caller's. Returns when all calls have; of the
// exceptions, the one of the lowest number is thrown on.
void ParallelFor(size_t n, const std::function<void(size_t)>& work);

}  // namespace stator
