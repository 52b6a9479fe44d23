// How a strided row-major product maps to what cuBLASLt takes: column-major matrices with a leading
// dimension, one strided batch axis, and a loop over whatever batch axes are left. No copies.
#pragma once

#include "codegen/plan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace stator {

struct LtMatrix {
  DType dtype = DType::kF32;
  int64_t rows = 0, cols = 0, ld = 0;  // column-major, elements
  int64_t batch_stride = 0;            // elements
  int alignment = 256;                 // bytes, of every matrix the call will touch
};

// The operands' roles: cuBLASLt's A and B (which may be the call's b and a), C, D and aux.
enum LtOperand { kLtA, kLtB, kLtC, kLtD, kLtAux, kLtOperands };

struct LtLoop {
  int64_t count = 1;
  int64_t stride[kLtOperands] = {};  // elements
};

struct LtProblem {
  bool empty = false;     // nothing to compute
  bool no_terms = false;  // K is 0: d = c, or zero
  bool swapped = true;    // A is the call's b: a row-major d is the transposed product
  bool transpose_a = false, transpose_b = false;
  LtMatrix matrix[kLtOperands];
  int64_t batch = 1;
  std::vector<LtLoop> loops;
  bool has_c = false;
  Epilogue epilogue = Epilogue::kNone;
  DType bias = DType::kF32;
  double flops = 0;

  // All that the choice of an algorithm may depend on.
  std::string Key() const;
};

// Throws `Error` (kUnsupported, kInvalidArgument) with `name`, naming the operand that has no such
// layout: neither of its last two strides is 1, rows overlap, or an epilogue's operand does not
// fit.
LtProblem MapMatMul(const MatMulCall& call, const std::string& name);

}  // namespace stator
