// `stator train --watch`: figures of values inside the step, every so many updates, without a
// change to the plan. A watched update runs step by step, and each value is read right after the
// step that writes it: the same kernels on the same bytes, so every bit of the run stays the same.
#pragma once

#include "frontend/driver/compile.h"
#include "frontend/driver/trainer.h"
#include "frontend/driver/values.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace stator {

struct WatchOptions {
  std::vector<std::string> patterns;  // "h.*/attn:absmax,rms"; without figures: absmax,rms
  int64_t every = 100;                // updates
};

struct WatchedFigures {
  std::string name;
  Type type;
  Figures figures;
};

class Watch {
 public:
  // Takes the graphs of `compiled`, which was made with keep_graphs. Throws `Error`
  // (kInvalidArgument) for a pattern that matches nothing and for a figure that there is not.
  Watch(CompiledModel& compiled, const WatchOptions& options);

  bool Wants(int64_t update) const { return update % every_ == 0; }  // 1 is the first
  // The first update after `update` that it wants.
  int64_t Next(int64_t update) const { return (update / every_ + 1) * every_; }
  // One update that waits for nothing else in flight. Of several micro-batches the first is
  // watched.
  Metrics Step(Trainer& trainer, const std::vector<Feed>& micro_batches,
               std::vector<WatchedFigures>* out) const;

 private:
  struct Watched {
    NamedValue value;
    std::vector<std::string> figures;
  };
  std::vector<std::unique_ptr<Graph>> graphs_;  // own the nodes of the values
  std::vector<Watched> watched_;                // in the order of their programs and steps
  int64_t every_;
};

}  // namespace stator
