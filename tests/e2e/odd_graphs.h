// Graphs that fuse in odd ways or have odd shapes: what samples of single ops do not reach.
#pragma once

#include "ir/graph.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace stator {

std::vector<std::pair<std::string, std::unique_ptr<Graph>>> OddGraphs();

}  // namespace stator
