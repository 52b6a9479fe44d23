// choose-implementations: asks the target who computes what the code generator does not, and sets
// aside the scratch that the chosen library needs.
#include "ir/base/error.h"
#include "ir/facts.h"
#include "ir/space.h"
#include "passes/analysis/attention_query.h"
#include "passes/passes.h"

#include <algorithm>

namespace stator {
namespace {

// Scratch of one attention call, bytes: about what else is alive in a backward pass once the logits
// are gone. A call that wants more goes in pieces, kPieces at once, which together keep to it: the
// batch entries are halved, and at one entry its key heads, each with its query heads. Two pieces
// side by side cost about 3 % of forward and backward, one after another 7 to 16 % more
// (docs/notes/cuda-runtime.md); they change no bit.
constexpr int64_t kScratch = int64_t{2} << 30;
constexpr int kPieces = 2;
// Pieces of one key head are the smallest; they go one after another only where two would take more
// than this: two heads of 32768 tokens are 4 GiB and what their rows need.
constexpr int64_t kMostScratch = 2 * kScratch + kScratch / 4;

constexpr int64_t PartsOf(int64_t total, int64_t chunk) { return (total + chunk - 1) / chunk; }

void ChooseAttention(Node* node, const PassOptions& options) {
  node->SetFact(fact::kImpl, std::string("library"));
  if (options.target == nullptr) return;
  const AttentionQuery all = QueryOf(*node, options);
  const auto scratch = [&](int64_t entries, int64_t heads) {
    AttentionQuery piece = all;
    piece.batch = entries, piece.kv_heads = heads;
    piece.heads = all.heads / all.kv_heads * heads;
    return AlignBuffer(options.target->AttentionWorkspace(piece));
  };
  int64_t entries = all.batch, heads = all.kv_heads, bytes = scratch(entries, heads);
  if (bytes == 0) return;
  if (bytes <= kScratch) {
    node->SetFact(fact::kScratch, bytes);
    return;
  }
  while (bytes > kScratch / kPieces && (entries > 1 || heads > 1)) {
    int64_t& count = entries > 1 ? entries : heads;
    count = (count + 1) / 2;
    bytes = scratch(entries, heads);
  }
  // The last piece may be short and, for some libraries, no cheaper.
  if (const int64_t rest = all.batch % entries; rest != 0) {
    bytes = std::max(bytes, scratch(rest, heads));
  }
  if (const int64_t rest = all.kv_heads % heads; rest != 0) {
    bytes = std::max(bytes, scratch(entries, rest));
  }
  const int64_t pieces = PartsOf(all.batch, entries) * PartsOf(all.kv_heads, heads);
  const int64_t at_once = std::clamp<int64_t>(kMostScratch / bytes, 1, kPieces);
  node->SetFact(fact::kScratch, bytes * std::min(at_once, pieces));
  if (entries < all.batch) node->SetFact(fact::kBatchChunk, entries);
  if (heads < all.kv_heads) node->SetFact(fact::kHeadChunk, heads);
}

}  // namespace

void ChooseImplementations(Graph& graph, const PassOptions& options) {
  for (Node* node : graph.Nodes()) {
    switch (node->op_class()) {
      case OpClass::kAttention:
        ChooseAttention(node, options);
        break;
      case OpClass::kContraction:
      case OpClass::kSort:
      case OpClass::kScatter:
        node->SetFact(fact::kImpl, std::string("library"));
        break;
      default:
        break;
    }
  }
}

}  // namespace stator
