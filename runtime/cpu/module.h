// Loaded shared objects of generated kernels.
#pragma once

#include "codegen/plan.h"
#include "runtime/kernel_cache.h"

#include <memory>
#include <string>
#include <vector>

namespace stator {

using CpuKernel = void (*)(void* const* args);

class CpuModule {
 public:
  // Throws `Error` (kEnvironment) when the loader does not take the file.
  explicit CpuModule(const std::string& path);
  CpuModule(const CpuModule&) = delete;
  CpuModule& operator=(const CpuModule&) = delete;
  ~CpuModule();

  // Throws `Error` for a name the module does not define.
  CpuKernel Find(const std::string& name) const;

 private:
  void* handle_;
  std::string path_;
};

// Each module's binary when it has one that runs on this machine, else its source compiled.
std::vector<std::unique_ptr<CpuModule>> LoadModules(const Plan& plan, const std::string& cache_dir);

// Entries of the plan's fingerprint: processor features that its binaries need, what made them.
inline constexpr const char* kCpuFeaturesKey = "cpu.features";
inline constexpr const char* kCpuCompilerKey = "cpu.compiler";

}  // namespace stator
