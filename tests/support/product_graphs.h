// Graphs whose products our own kernel takes: what the kernel is tested on, as text and on a GPU.
#pragma once

#include "ir/graph.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace stator {

struct ProductGraph {
  std::string name;
  std::unique_ptr<Graph> graph;
};

// bf16 products of several shapes, M no multiple of a tile among them, with a bias and a gate, with
// a residual, and with a gate's gradient and its column sums; B stored by columns and by rows.
std::vector<ProductGraph> ProductGraphs();

// Products of few elements, which the kernel with a tile a block takes: by themselves as well, and
// of parts of larger operands.
std::vector<ProductGraph> SmallProductGraphs();

// One whose B is a state that has a next value: input x, g, state w, one output.
std::unique_ptr<Graph> SmallProductOfState();

}  // namespace stator
