// Independent pieces of work in threads.
#pragma once

#include <cstddef>
#include <functional>

namespace stator {

// Of the process: the most threads that a ParallelFor takes; 0: as many as the machine has.
void LimitThreads(size_t most);

// Calls `work` with every number below `n`, from as many threads as LimitThreads says at most; 0,
// which should be the largest piece, at once from the caller's. Returns when all calls have; of the
// exceptions, the one of the lowest number is thrown on.
void ParallelFor(size_t n, const std::function<void(size_t)>& work);

}  // namespace stator
