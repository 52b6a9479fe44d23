#include "ir/facts.h"

#include <map>

namespace stator::fact {

const Attr* Example(std::string_view key) {
  static const std::map<std::string_view, Attr> examples = [] {
    std::map<std::string_view, Attr> all;
    for (const auto k : {kPhase, kImpl, kEpilogue}) all[k] = std::string("word");
    for (const auto k : {kInline, kAssembled, kView, kRecompute}) all[k] = true;
    for (const auto k : {kTile, kStrides, kSpace, kOffset, kInPlace}) all[k] = Dims{0};
    for (const auto k : {kF32Group, kRegion, kViewOffset, kStream, kWaits, kScratch, kScratchAt,
                         kJoins, kTogether, kBatchChunk, kHeadChunk, kBelow, kIgnored}) {
      all[k] = int64_t{0};
    }
    return all;
  }();
  const auto it = examples.find(key);
  return it == examples.end() ? nullptr : &it->second;
}

}  // namespace stator::fact
