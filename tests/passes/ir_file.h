// Pass tests as text: one file, many cases.
//
//   // RUN: canonicalize, merge-duplicates     passes, for every case of the file
//   // OPTIONS: compute_dtype=bf16             see ParseOptions; a case's own line adds to it
//   // Says why.                               any other comment is kept
//   // CASE name
//   graph @f(...) ... { ... }
//   // EXPECT                                  the exact text after the passes follows
//   // EXPECT unchanged
//   // EXPECT error: part of the message
#pragma once

#include "passes/pass.h"

#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace stator::testing {

struct IrCase {
  std::string file, name;
  int line = 0;  // of `// CASE`
  std::vector<std::string> passes;
  std::vector<std::string> options;  // "key=value"
  std::string input;
  std::string expect;  // "unchanged", "error: ...", or "" for a text
  std::string expected_text;
  // The lines of the expected text, [begin, end), counted from 0.
  int expect_line = 0, expected_begin = 0, expected_end = 0;
};

inline void PrintTo(const IrCase& c, std::ostream* out) { *out << c.file << ':' << c.line; }

// The cases of every .ir file in `folder`, in name order. Throws `Error` for a malformed file.
std::vector<IrCase> ReadIrFiles(const std::string& folder);

// compute_dtype, micro_batches, fuse, fast, keep_f32 (globs joined by |), own_matmul (never, faster
// or possible), target=cuda-no-attention, cuda-attention or hopper, optimizer (sgd or adam, lr
// 0.1), clip_norm, weight_decay, skip_non_finite. Owns what it points to.
struct CaseOptions {
  PassOptions pass;
  OptimizerSpec optimizer;
  std::unique_ptr<Target> target;
};
void ParseOptions(const std::vector<std::string>& options, CaseOptions& to);

// Writes `actual` in place of the expectation of the cases of one file.
void UpdateIrFile(const std::string& file,
                  const std::vector<std::pair<IrCase, std::string>>& actual);

}  // namespace stator::testing
