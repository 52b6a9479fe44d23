// Runs passes in order, verifies what they leave, and says what each one took.
#include "ir/base/error.h"
#include "ir/verifier.h"
#include "passes/pass.h"

#include <chrono>

namespace stator {

std::vector<PassTiming> PassManager::Run(
    Graph& graph, const PassOptions& options,
    const std::function<void(const std::string& pass, const Graph&)>& on_dump) const {
  VerifyGraph(graph);
  if (on_dump) on_dump("input", graph);
  std::vector<PassTiming> timings;
  for (const Pass& pass : passes_) {
    PassTiming timing{.name = pass.name, .nodes_before = graph.num_nodes()};
    const auto begin = std::chrono::steady_clock::now();
    pass.run(graph, options);
    timing.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    timing.nodes_after = graph.num_nodes();
    timings.push_back(timing);
    if (on_dump) on_dump(pass.name, graph);
    if (!options.verify_each_pass && &pass != &passes_.back()) continue;
    // What a pass leaves behind is ours to answer for, whatever the user's program was.
    try {
      VerifyGraph(graph);
    } catch (const Error& e) {
      const std::string since =
          options.verify_each_pass ? "" : StrCat(" or one from ", passes_[0].name, " on");
      STATOR_CHECK(false, "after pass ", pass.name, since, ": ", e.what());
    }
  }
  return timings;
}

}  // namespace stator
