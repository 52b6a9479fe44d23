// The system's C++ compiler, run on generated kernels.
#pragma once

#include "codegen/plan.h"
#include "runtime/kernel_cache.h"

#include <string>
#include <vector>

namespace stator {

class CpuCompiler {
 public:
  // $CXX, or the first of g++, clang++ and c++ that runs. Throws `Error` (kEnvironment) when none
  // does.
  CpuCompiler();

  const std::string& version() const { return version_; }  // first line of --version
  // Of the module compiled here: source, compiler, flags, processor.
  std::string KeyOf(const std::string& source) const;
  // Compiles what the cache does not hold. Returns the path of the shared object. Throws `Error`
  // (kEnvironment) with the compiler's first complaints.
  std::string Compile(const std::string& source, KernelCache& cache) const;

 private:
  std::vector<std::string> command_;  // "ccache", "g++"
  std::string version_;
};

// Instruction sets of this machine that a compiler may use: "avx avx2 avx512f ...". Code compiled
// for them runs wherever all of them are present.
std::string CpuFeatures();
bool HasCpuFeatures(const std::string& wanted);

}  // namespace stator
