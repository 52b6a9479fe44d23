// Matrix products on the CPU: oneDNN where it takes the problem, our own loops for the rest.
#pragma once

#include "codegen/plan.h"
#include "runtime/cpu/memory.h"

#include <cstdint>
#include <memory>

namespace stator {

// One MatMulCall made ready: chosen, compiled and bound to addresses once, run many times.
class CpuMatMul {
 public:
  virtual ~CpuMatMul() = default;
  virtual int64_t scratch_bytes() const { return 0; }
  // Must be called once before Run when scratch_bytes() > 0.
  virtual void BindScratch(char*) {}
  virtual void Run() = 0;
  virtual const char* implementation() const = 0;  // "brg:avx512_core", "plain"
};

// Throws `Error` (kUnsupported) for dtypes that neither takes.
std::unique_ptr<CpuMatMul> MakeCpuMatMul(const MatMulCall& call, const CpuMemory& memory);

// The parts: null when oneDNN does not take the problem well.
std::unique_ptr<CpuMatMul> MakeOneDnnMatMul(const MatMulCall& call, const CpuMemory& memory);
std::unique_ptr<CpuMatMul> MakePlainMatMul(const MatMulCall& call, const CpuMemory& memory);

std::string OneDnnVersion();  // "2.6.3"

// The problem as [batch.., M, N, K] with as few batch axes as strides allow; strides of a [.., M,
// K], b [.., K, N], c and d [.., M, N] in elements, 0 where an operand is the same for a whole
// axis.
struct MatMulShape {
  Dims batch;
  int64_t m = 0, n = 0, k = 0;
  Dims a, b, c, d;  // batch strides, then the last two
};
MatMulShape SimplifyMatMul(const MatMulCall& call);

}  // namespace stator
