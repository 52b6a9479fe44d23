// Matrix products in many layouts, with their f64 references; run on the device and through a host
// model of cuBLASLt's conventions.
#pragma once

#include "codegen/plan.h"

#include <string>
#include <vector>

namespace stator::gpu_test {

// How an operand's last two axes lie, and its batch axes around them.
enum class Layout {
  kRows,        // dense, row-major
  kColumns,     // dense, the transposed matrix
  kPaddedRows,  // rows lie apart
  kHeads,       // [T,H,D] storage seen as [H,T,D]: the batch axis is between the matrix's
  kShared,      // one matrix for the whole batch
};

enum class CKind { kNone, kSeparate, kInPlace };

struct MatMulCase {
  std::string name;
  Dims batch;
  int64_t m = 1, n = 1, k = 1;
  Layout a = Layout::kRows, b = Layout::kRows, d = Layout::kRows;
  DType in = DType::kF32, out = DType::kF32;
  CKind c = CKind::kNone;
  Epilogue epilogue = Epilogue::kNone;
};

// Storage and view of one operand.
struct Laid {
  int64_t elements = 0;
  Dims shape, strides;
};
Laid LayOut(Layout layout, const Dims& batch, int64_t rows, int64_t cols);

struct MatMulReference {
  std::vector<double> d, aux;  // dense [batch.., M, N]
};

// Reads the flat storages of the operands through `call`'s views; `a`, `b`, `c` and `bias` are the
// whole buffers. Views start where the call's offsets say, in bytes.
MatMulReference ReferenceMatMul(const MatMulCall& call, const std::vector<double>& a,
                                const std::vector<double>& b, const std::vector<double>& c,
                                const std::vector<double>& bias);

// The dense elements of a view of `storage`.
std::vector<double> Gather(const TensorRef& view, const std::vector<double>& storage);

std::vector<MatMulCase> MatMulCases();

}  // namespace stator::gpu_test
