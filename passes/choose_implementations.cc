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
// are gone. A batch that wants more goes in pieces, two at once, which costs about 5 % of the call
// (docs/notes/h200-spikes.md); pieces change no bit.
constexpr int64_t kScratch = int64_t{2} << 30;
constexpr int kPieces = 2;

void ChooseAttention(Node* node, const PassOptions& options) {
  node->SetFact(fact::kImpl, std::string("library"));
  if (options.target == nullptr) return;
  AttentionQuery query = QueryOf(*node, options);
  const int64_t batch = query.batch;
  const auto scratch = [&](int64_t entries) {
    query.batch = entries;
    return AlignBuffer(options.target->AttentionWorkspace(query));
  };
  const int64_t whole = scratch(batch);
  if (whole == 0) return;
  int64_t chunk = batch, piece = whole;
  while (chunk > 1 && piece > (chunk == batch ? kScratch : kScratch / kPieces)) {
    chunk = (chunk + 1) / 2;
    piece = scratch(chunk);
  }
  // The last piece may be short and, for some libraries, no cheaper.
  if (batch % chunk != 0) piece = std::max(piece, scratch(batch % chunk));
  const int64_t fit = std::clamp<int64_t>(kScratch / piece, 1, kPieces);
  const int64_t pieces = std::min(fit, (batch + chunk - 1) / chunk);
  node->SetFact(fact::kScratch, piece * pieces);
  if (chunk < batch) node->SetFact(fact::kBatchChunk, chunk);
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
