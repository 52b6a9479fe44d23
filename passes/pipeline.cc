// The compiler, from a declared model to a planned program, in the order in which it happens. Each
// line is a pass and the reason why it stands where it stands; read this file first.
#include "passes/pipeline.h"

#include "ir/base/error.h"
#include "passes/passes.h"

#include <algorithm>

namespace stator {
namespace {

void Append(std::vector<Pass>& to, const std::vector<Pass>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

std::vector<Pass> ModelPasses() {
  return {
      {"limit-indices", "while ops still say which operand is an index, and into what",
       LimitIndices},
      {"canonicalize",
       "before everything that matches patterns, so that they meet one spelling of a thing",
       Canonicalize},
      {"fold-constants", "after canonicalize, which brings constants next to each other",
       FoldConstants},
      {"merge-duplicates", "before autodiff, which would differentiate each duplicate",
       MergeDuplicates},
  };
}

std::vector<Pass> StepPasses() {
  return {
      {"autodiff", "on the model as declared: a composite op has a better gradient than its parts",
       Autodiff},
      {"merge-loss-head",
       "as soon as both are there: from here on the loss comes from the node that has its gradient",
       MergeLossHead},
      {"apply-optimizer", "after autodiff, whose grad/ outputs it consumes", ApplyOptimizer},
  };
}

std::vector<Pass> PrecisionPasses() {
  return {
      {"canonicalize", "gradients of broadcasts and reshapes leave nodes that do nothing",
       Canonicalize},
      {"merge-duplicates", "before mixed-precision, while a gradient's parts are still few",
       MergeDuplicates},
      {"mixed-precision",
       "forward, gradient and update are all there, and composites still say what is f32 inside",
       MixedPrecision},
  };
}

std::vector<Pass> StatePasses() {
  return {
      {"split-masters",
       "after mixed-precision, when all programs agree which parameters have a bf16 shadow",
       SplitMasters},
  };
}

std::vector<Pass> LowerPasses() {
  return {
      {"expand-composites", "dtypes are settled; from here on every op is what kernels are made of",
       ExpandComposites},
      {"canonicalize", "expansions and casts leave nodes that do nothing", Canonicalize},
      {"fold-constants", "expansions compute with constants", FoldConstants},
      {"merge-duplicates", "expansions repeat each other, and casts meet their like",
       MergeDuplicates},
      {"choose-implementations",
       "library calls are in sight and final; what scratch they need is planned as memory",
       ChooseImplementations},
      {"split-reductions", "once every reduction is in sight, and before regions form around folds",
       SplitReductions},
      {"recompute",
       "on final nodes, and before regions: a clone joins the backward kernel that reads what it "
       "reads",
       Recompute},
      {"lower-views", "after the last pass that adds movement; regions form around what is no view",
       LowerViews},
      {"fuse-epilogues",
       "after views are known, and before fuse-regions, which leaves alone what a library call "
       "does",
       FuseEpilogues},
      {"place-in-concat",
       "after views are known, and before regions form: a library call writes into the joined "
       "buffer",
       PlaceInConcat},
      {"fuse-regions", "on final nodes: nothing that computes is added after it", FuseRegions},
      {"fuse-products",
       "of regions: one takes the product that it reads, and with it the time to load it",
       FuseProducts},
      {"order-nodes", "of regions, which run as a whole", OrderNodes},
      {"assign-streams",
       "when the order is known, and before plan-memory: what runs at once shares no memory",
       AssignStreams},
      {"plan-memory", "last: lifetimes are known when the order is", PlanMemory},
  };
}

std::vector<Pass> TrainPipeline() {
  std::vector<Pass> all = ModelPasses();
  Append(all, StepPasses());
  Append(all, PrecisionPasses());
  Append(all, StatePasses());
  Append(all, LowerPasses());
  return all;
}

const std::vector<Pass>& AllPasses() {
  static const std::vector<Pass>* const kAll = [] {
    auto* all = new std::vector<Pass>;
    for (Pass& pass : TrainPipeline()) {
      const auto same = [&](const Pass& p) { return p.name == pass.name; };
      if (std::none_of(all->begin(), all->end(), same)) all->push_back(std::move(pass));
    }
    return all;
  }();
  return *kAll;
}

const Pass& FindPass(std::string_view name) {
  for (const Pass& pass : AllPasses()) {
    if (pass.name == name) return pass;
  }
  std::vector<std::string> known;
  for (const Pass& pass : AllPasses()) known.push_back(pass.name);
  Fail(ErrorCode::kInvalidArgument, "no pass is named ", name, "; there are ", Join(known, ", "));
}

}  // namespace stator
