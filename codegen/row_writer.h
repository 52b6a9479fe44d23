// Rows for CUDA. A row belongs to P threads, a block holds Y rows. The lanes of ir/reduce_tree.h
// are laid out as g * (P * V) + t * V + v, whatever P, V and Y are, so that the result depends on
// the shape alone.
//
// Rows that fit the registers are loaded whole, packed as stored, ahead of the first sweep.
#pragma once

#include "codegen/cuda_writer.h"
#include "codegen/placed_vectors.h"

#include <string>
#include <vector>

namespace stator {

struct RowShape {
  int64_t v = 1;   // elements of a vector
  int64_t p = 32;  // threads of a row
  int64_t k = 1;   // chunks of a row: vectors that a thread has of it
  int64_t g = 1;   // accumulators of a thread, each of V lanes: chunk c goes to c % g
  int64_t y = 1;   // rows of threads of a block
};

// How rows come to a thread.
enum class RowLoads {
  kHere,  // loaded by the sweeps
  kRing,  // copied to shared memory ahead, by text that the sweeps leave in RingLoads
};

class RowWriter : public CudaWriter {
 protected:
  RowWriter(const RegionParts& parts, RowLoads loads)
      : CudaWriter(parts), ring_(loads == RowLoads::kRing) {}

  RowShape ShapeOfRows() const;
  void SetChunks(RowShape* shape) const;
  // The sweeps over one row of threads; variables t, y, live, r are defined.
  std::string Sweeps(const RowShape& shape, const IndexExpr& start, const IndexExpr& row,
                     const std::string& bound);
  // Over the chunks of a row in registers.
  static std::string Chunks(int64_t count, const std::string& body);
  static std::string Threads(const RowShape& shape);
  // Defines r, the row at `at`, after what is `before` in the same declaration; where rows of
  // threads may have none, `live`, whether this one has, and else the last of `rows`.
  std::string DefineRow(const std::string& before, const std::string& at, const std::string& live,
                        int64_t rows) const;
  // The accumulators of the k-th column fold, which the sweeps add to, and their first values.
  std::string DeclareColumns(const RowShape& shape, size_t k) const;
  std::string ResetColumns(const RowShape& shape, size_t k) const;

  // A ring's memory: what all rows read alike, then kRingRows rows of every row of threads, then
  // column lanes that wait for others, where all meet at last.
  PlacedVectors placed() const { return {emitter_, vectors_}; }

  struct RingLoads {
    std::string row, alike;  // a row's vectors; those that all rows read alike
    std::string values;      // what the row alone decides
  };
  RingLoads ring_loads_;
  int64_t vectors_ = 0;       // of a ring's row
  bool may_be_dead_ = false;  // some threads of the last block have no row
  bool fits_ = true;          // a ring

 private:
  struct RowTotal {
    Value value;
    std::string op, type, lanes, total;
  };
  // A sweep's text as its folds are emitted.
  struct Sweep {
    std::string declare, lanes, combine;
    std::vector<RowTotal> totals;
  };

  // Defines what lies within a row that starts at `start`; the position of an element. `at_first`:
  // all loads come before the first sweep.
  IndexExpr BeginRow(const RowShape& shape, const IndexExpr& start, bool at_first);
  void AddRowFold(const RowShape& shape, Node* fold, const IndexExpr& full, Sweep* sweep);
  void AddColumnFolds(const IndexExpr& full);
  // Combines the lanes of a sweep's folds.
  std::string Totals(const RowShape& shape, const std::vector<RowTotal>& totals);
  // A sweep over a row that does not fit the registers.
  std::string Stream(const RowShape& shape, const std::string& define_e, std::string condition,
                     const std::string& end, int64_t bytes);

  const bool ring_;
};

}  // namespace stator
