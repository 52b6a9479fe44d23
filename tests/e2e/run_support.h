// Small training runs for the end-to-end tests.
#pragma once

#include "frontend/driver/train.h"
#include "tests/frontend/driver/driver_support.h"

#include <string>
#include <vector>

namespace stator {

// English enough that a byte-level model learns from it within a few updates.
std::string SmallText();

// A run that takes seconds: one layer of width 32, 24 updates, no sample.
TrainConfig SmallConfig(const TempDir& dir, const std::string& out_name);

struct Step {
  double loss = 0, grad_norm = 0, lr = 0;
  bool operator==(const Step&) const = default;
};
// What metrics.jsonl in `out_dir` says of every update.
std::vector<Step> ReadSteps(const std::string& out_dir);

// The bytes of a file of the checkpoint in `out_dir`.
std::vector<char> CheckpointFile(const std::string& out_dir, const std::string& name);

}  // namespace stator
