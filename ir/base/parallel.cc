#include "ir/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace stator {
namespace {

std::atomic<size_t> most_threads{0};

size_t MostThreads() {
  const size_t most = most_threads;
  return most > 0 ? most : std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace

void LimitThreads(size_t most) { most_threads = most; }

void ParallelFor(size_t n, const std::function<void(size_t)>& work) {
  std::vector<std::exception_ptr> errors(n);
  std::atomic<size_t> next{1};
  const auto run = [&](size_t first) {
    for (size_t i = first; i < n; i = next.fetch_add(1)) {
      try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  const size_t threads = std::min(n, MostThreads());
  std::vector<std::thread> others;
  try {
    for (size_t t = 1; t < threads; ++t) others.emplace_back([&] { run(next.fetch_add(1)); });
  } catch (const std::system_error&) {
    // The system has no more threads to give: those that are there do the same work.
  }
  run(0);
  for (std::thread& thread : others) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace stator
