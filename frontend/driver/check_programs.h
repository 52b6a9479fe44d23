// Two plans of one model, run side by side: what `stator check` and the end-to-end tests stand on.
#pragma once

#include "codegen/build_plan.h"
#include "frontend/driver/reference_walk.h"
#include "frontend/driver/trainer.h"
#include "runtime/executor.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace stator {

// A plan with the graphs it was made from.
struct CheckedPlan {
  std::unique_ptr<Executor> executor;
  std::map<std::string, std::unique_ptr<Graph>> graphs = {};  // by program, as planned
  StepValues values;
};

struct ProgramFindings {
  bool agree = true;
  std::vector<std::string> lines;  // what was compared, or the first difference of each kind
  std::vector<std::pair<std::string, double>> scalars;  // outputs of one element
};

class ProgramCheck {
 public:
  // Both plans come from the same graphs but for what fuse-regions and the passes after it did, so
  // that a node has the same id in both. `reference`: auto, yes, no.
  ProgramCheck(CheckedPlan fused, CheckedPlan unfused, std::string reference);

  Executor& fused() { return *fused_.executor; }

  // Runs the program by both plans from the states that `fused` holds, which move on.
  ProgramFindings Run(const std::string& program, const Feed& feed);

 private:
  using States = std::map<std::string, std::vector<char>>;
  using Key = std::pair<int, int>;  // node id, result
  using Stored = std::map<Key, std::vector<char>>;

  States ReadStates(Executor& executor) const;
  Stored RunUnfused(const std::string& program, const Feed& feed, const States& before,
                    ProgramFindings& found);
  void RunFused(const std::string& program, const Feed& feed, const Stored& want,
                ProgramFindings& found);
  void CompareEnds(const std::string& what, const States& got, const States& want,
                   ProgramFindings& found) const;
  bool WantsReference(const Graph& graph) const;

  CheckedPlan fused_, unfused_;
  std::string reference_;
};

}  // namespace stator
