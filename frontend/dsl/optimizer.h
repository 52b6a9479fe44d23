// Optimizers: plain options that make an OptimizerSpec (ir/training.h). Each builds one parameter's
// update as ordinary IR; its moments are states `<parameter>.<moment>`.
#pragma once

#include "frontend/dsl/schedule.h"
#include "ir/training.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace stator::dsl {

// Parameters whose path matches a glob. The first group that matches a parameter holds for it.
struct ParameterGroup {
  std::string pattern;                      // "h.*/ln_?/*"
  std::optional<double> weight_decay = {};  // otherwise as for parameters in no group
  double lr_factor = 1;
  bool frozen = false;  // no gradient, no optimizer state
};

// What the training step takes: any of the structs below, or a function of one's own. Calling it
// makes the frozen groups' parameters frozen in the graph; a group that matches nothing is an
// error.
using Optimizer = std::function<OptimizerSpec(Graph&)>;

// An `adjustable` optimizer has settings on the device that Trainer::Set changes between updates:
// factors of the learning rate and of the weight decay, and the clip norm where there is one.
//
// Outside groups, only parameters of two or more axes decay: weights and embeddings, not biases and
// norm scales.

// PyTorch's SGD: g += wd*p; m = momentum*m + g; p -= lr * (nesterov ? g + momentum*m : m).
struct Sgd {
  Schedule learning_rate = 1e-2;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  double clip_norm = 0;  // bound on the global L2 norm of the gradients; 0: none
  std::vector<ParameterGroup> groups = {};
  bool adjustable = false;
  OptimizerSpec operator()(Graph& graph) const;
};

// PyTorch's AdamW (Loshchilov and Hutter 2019), step t counted from 1:
//   p -= lr*wd*p;  m += (1-b1)*(g-m);  v = b2*v + (1-b2)*g*g
//   p -= lr/(1-b1^t) * m / (sqrt(v)/sqrt(1-b2^t) + eps)
struct AdamW {
  Schedule learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  double clip_norm = 0;
  std::vector<ParameterGroup> groups = {};
  bool adjustable = false;
  OptimizerSpec operator()(Graph& graph) const;
};

// Lion (Chen et al. 2023): p -= lr*wd*p;  p -= lr*sign(b1*m + (1-b1)*g);  m = b2*m + (1-b2)*g.
struct Lion {
  Schedule learning_rate = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
  double clip_norm = 0;
  std::vector<ParameterGroup> groups = {};
  bool adjustable = false;
  OptimizerSpec operator()(Graph& graph) const;
};

// For optimizers of one's own: the options that all share, applied to `graph`'s parameters; the
// caller sets `update`.
OptimizerSpec MakeSpec(Graph& graph, const Schedule& learning_rate, double weight_decay,
                       double clip_norm, const std::vector<ParameterGroup>& groups);

// Declares the moment `<parameter>.<name>` of an update, zero at first.
Value AddMoment(Builder& b, const ParameterUpdate& u, const std::string& name);

}  // namespace stator::dsl
