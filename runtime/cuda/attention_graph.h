// A built cuDNN graph, behind an interface: cudnn_frontend.h is slow to compile and stays in one
// file.
#pragma once

#include "runtime/cuda/attention_problem.h"

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace stator {

// Names of a graph's tensors.
enum AttentionUid : int64_t {
  kQ = 1,
  kK,
  kV,
  kOut,
  kLse,
  kDOut,
  kDQ,
  kDK,
  kDV,
  kQueryLengths,
  kKeyLengths
};
using AttentionPointers = std::unordered_map<int64_t, void*>;

class AttentionGraph {
 public:
  virtual ~AttentionGraph() = default;
  virtual int64_t workspace() const = 0;  // bytes
  // On the handle's stream; returns cuDNN's complaint, "" when all is well.
  virtual std::string Run(cudnnHandle_t handle, AttentionPointers& pointers, char* workspace) = 0;
  // Bytes that ReadAttentionGraph takes, the compiled kernel included; empty when cuDNN cannot.
  virtual std::vector<char> Serialize() const = 0;
};

// Null, and the reason in `why`, when cuDNN does not take the problem.
std::unique_ptr<AttentionGraph> BuildAttentionGraph(const AttentionProblem& problem,
                                                    cudnnHandle_t handle, std::string* why);
// Null when the bytes are not of this library version and device.
std::unique_ptr<AttentionGraph> ReadAttentionGraph(const std::vector<char>& bytes,
                                                   cudnnHandle_t handle);

}  // namespace stator
