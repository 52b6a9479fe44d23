// The order of abstract steps with dependences, by the memory they take: what `order-nodes`
// decides, apart from graphs.
#pragma once

#include <cstdint>
#include <vector>

namespace stator {

// Steps are numbered in the order in which they are wanted.
struct ScheduleProblem {
  struct Buffer {
    int writer = 0;
    std::vector<int> readers;  // each once
    int64_t bytes = 0;
    bool to_end = false;  // needed after the last step
  };
  int num_steps = 0;
  std::vector<std::vector<int>> successors;  // by step; must be after it
  std::vector<Buffer> buffers;
};

// Adds `before -> after` unless that would make a cycle. Returns whether it did.
bool AddEdgeIfAcyclic(ScheduleProblem& problem, int before, int after);

// The wanted order made legal: always the ready step with the lowest number. Shorter than num_steps
// when there is a cycle; the missing steps are in it or behind it.
std::vector<int> OrderAsWanted(const ScheduleProblem& problem);

// As above, but a ready step that frees more than it allocates goes first.
std::vector<int> OrderForMemory(const ScheduleProblem& problem);

// The most bytes alive at once. `ends`, unless empty, says for each place in the order the last
// place that runs as if at once with it: what the one reads last lives to the end of the other.
int64_t PeakBytes(const ScheduleProblem& problem, const std::vector<int>& order,
                  const std::vector<int>& ends = {});

}  // namespace stator
