#include "ir/storage.h"

#include "ir/facts.h"

namespace stator {

Storage StorageOf(Value v) {
  const auto space = v.node->facts().find(fact::kSpace);
  const auto offset = v.node->facts().find(fact::kOffset);
  if (space == v.node->facts().end() || offset == v.node->facts().end()) return {};
  return {static_cast<Space>(std::get<Dims>(space->second)[v.index]),
          std::get<Dims>(offset->second)[v.index]};
}

int64_t ScratchOffset(const Node& node) { return node.IntFact(fact::kScratchAt, -1); }

}  // namespace stator
