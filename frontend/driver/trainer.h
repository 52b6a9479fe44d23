// Trainer: a compiled model with its states, one update at a time. What `stator train` stands on,
// and what a program of one's own uses:
//
//   dsl::Model m("mlp");
//   ... m.SetLoss(loss);
//   Trainer trainer(m, dsl::AdamW{.learning_rate = 1e-3});
//   const Metrics metrics = trainer.Step({{"x", AsBytes(x)}, {"y", AsBytes(y)}});
#pragma once

#include "frontend/driver/compile.h"
#include "frontend/dsl/model.h"
#include "frontend/dsl/optimizer.h"
#include "runtime/executor.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace stator {

// Dense row-major elements of an input.
template <typename T>
Bytes AsBytes(const std::vector<T>& elements) {
  return Bytes(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(T));
}

// One micro-batch: every input by its name.
using Feed = std::map<std::string, Bytes>;

struct Metrics {
  float loss = 0;       // mean over the micro-batches, weighted by their token counts
  float weight = 0;     // tokens counted; 0 when the loss does not count
  float grad_norm = 0;  // before clipping
  float learning_rate = 0;
  float loss_scale = 0;  // that this update used; 0 without scaling
  bool finite = true;    // false: the norm was not finite, and the update was skipped
};

struct TrainerOptions {
  std::string device = "auto";
  CompileOptions compile = {};
  ExecutorOptions executor = {};
  uint64_t seed = 0;  // of parameters and random streams
};

class Trainer {
 public:
  // Compiles, loads and initializes. Freezes the parameters that the optimizer's groups say. Throws
  // `Error`.
  Trainer(dsl::Model& model, const dsl::Optimizer& optimizer, const TrainerOptions& options = {});
  // Over a plan already loaded, whose states the caller fills in.
  explicit Trainer(std::unique_ptr<Executor> executor);

  // One update from one micro-batch, or from as many as the plan was compiled for. Waits for it.
  Metrics Step(const Feed& feed) { return Step(std::vector<Feed>{feed}); }
  Metrics Step(const std::vector<Feed>& micro_batches);

  // The same without waiting: the device works while the host prepares the next batch. Feeds are
  // copied before the call returns. Metrics come in the order of the updates.
  void Enqueue(const std::vector<Feed>& micro_batches);
  int in_flight() const { return static_cast<int>(updates_.size()); }  // updates not taken
  Metrics Take();  // of the oldest update in flight, waiting for it

  // As Step, one step of the plan after the other, each followed by `visit`: what it wrote can be
  // read with Executor::ReadBuffer. `run` counts the runs of `program` in this update. The bits are
  // those of Step.
  using StepObserver =
      std::function<void(const std::string& program, int run, int step, Executor& executor)>;
  Metrics StepObserved(const std::vector<Feed>& micro_batches, const StepObserver& visit);

  // Changes a setting from the next update on, after those in flight: "learning_rate_factor",
  // "weight_decay_factor" and "clip_norm" of an optimizer that is `adjustable`, "loss_scale" (a
  // power of two) of f16 training. Checkpoints have settings. Throws `Error` for a name or value
  // that there cannot be.
  void Set(const std::string& setting, double value);

  // Loss and weight of a batch, by the program "evaluate"; no update may be in flight.
  Metrics Evaluate(const Feed& feed);

  Executor& executor() { return *executor_; }
  const Plan& plan() const { return executor_->plan(); }

 private:
  void CheckFeeds(const std::vector<Feed>& micro_batches) const;
  void Launch(const std::string& program, const Feed& feed, bool last);
  void WaitOldest();

  std::unique_ptr<Executor> executor_;
  bool accumulates_ = false;  // programs "accumulate" and "update" instead of "train"
  struct Run {
    int64_t ticket;
    bool last;  // of its update
  };
  std::deque<Run> runs_;         // launched and not waited for
  std::deque<Metrics> updates_;  // done ones, oldest first, then one entry for each still running
  int done_ = 0;                 // how many of `updates_` are done
};

}  // namespace stator
