// What turns a loss into a training step, as data and graph-building functions: the DSL fills it
// in, the `apply-optimizer` pass reads it. Optimizers are per-parameter IR.
#pragma once

#include "ir/builder.h"

#include <functional>
#include <string>

namespace stator {

// Names that the trainer and the passes agree on.
namespace training {
inline constexpr std::string_view kLoss = "loss";      // f32[] output, the mean loss
inline constexpr std::string_view kWeight = "weight";  // f32[] output, its token count; optional
inline constexpr std::string_view kGradNorm = "grad_norm";  // f32[] output of the update
inline constexpr std::string_view kLearningRate = "lr";     // f32[] output of the update
inline constexpr std::string_view kFinite = "finite";       // bool[] output: the update was applied
inline constexpr std::string_view kStep = "step";           // i64[] state: updates applied so far
inline constexpr std::string_view kSeed = "seed";  // u32[2] state: key of every random stream
// Settings, f32[] states that the host may change between updates: of an adjustable optimizer.
inline constexpr std::string_view kRateFactor = "learning_rate_factor";  // of the schedule's rate
inline constexpr std::string_view kDecayFactor = "weight_decay_factor";  // of every group's decay
inline constexpr std::string_view kClipNorm = "clip_norm";  // where gradients are clipped
inline constexpr std::string_view kSettingRole = "setting";
// Of f16 training alone; see passes/analysis/loss_scaling.h.
inline constexpr std::string_view kLossScale = "loss_scale";            // f32[] state and output
inline constexpr std::string_view kGoodUpdates = "loss_scale.good";     // i64[] state
inline constexpr std::string_view kSkippedUpdates = "skipped_updates";  // i64[] state
inline constexpr std::string_view kGradPrefix = "grad/";  // grad/<parameter>: outputs of autodiff
                                                          // and f32 accumulator states
}  // namespace training

// One parameter's update at one step.
struct ParameterUpdate {
  std::string name;         // of the parameter's state: `h.0/mlp/up/w`
  Value parameter;          // f32, any shape
  Value gradient;           // f32, same shape; already clipped
  Value learning_rate;      // f32[]
  Value step;               // f32[], 1 for the first update
  double weight_decay = 0;  // of the parameter's group
  Value decay_factor = {};  // f32[], of weight_decay, where the optimizer is adjustable
};

struct OptimizerSpec {
  // f32[] learning rate at `step` (f32[], 0 for the first update).
  std::function<Value(Builder&, Value step)> schedule;
  // The parameter's next value. Declares moments with graph().AddState("<name>.<moment>", ...,
  // {role="moment"}) and SetNextState; the pass makes every such write conditional on `finite`.
  std::function<Value(Builder&, const ParameterUpdate&)> update;
  // Decay of a parameter by name and type. Default: none.
  std::function<double(const std::string& name, const Type& type)> weight_decay;
  // Learning-rate factor of a parameter's group. Default: 1.
  std::function<double(const std::string& name, const Type& type)> lr_factor;
  double clip_norm = 0;         // global L2 norm; 0 means no clipping
  bool adjustable = false;      // rate, decay and clip norm have settings
  bool skip_non_finite = true;  // leave all state alone when the gradient norm is not finite
};

}  // namespace stator
