#include "runtime/cpu/module.h"

#include "ir/base/error.h"
#include "runtime/compile_plan.h"
#include "runtime/cpu/compiler.h"
#include "runtime/cpu/matmul.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <exception>
#include <filesystem>
#include <fstream>

namespace stator {
namespace {

bool BinariesRunHere(const Plan& plan) {
  const auto made_for = plan.fingerprint.find(kCpuFeaturesKey);
  return made_for != plan.fingerprint.end() && HasCpuFeatures(made_for->second);
}

// A plan's own binary goes through a file that nobody else sees: the cache holds only what was
// compiled here.
std::unique_ptr<CpuModule> LoadBinary(const KernelModule& module, KernelCache& cache) {
  const std::string path = cache.TemporaryPath("so");
  {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out.write(module.binary.data(), static_cast<std::streamsize>(module.binary.size()));
    out.close();
    if (!out) Fail(ErrorCode::kIo, "cannot write ", path);
  }
  try {
    auto loaded = std::make_unique<CpuModule>(path);
    unlink(path.c_str());
    return loaded;
  } catch (...) {
    unlink(path.c_str());
    throw;
  }
}

// An entry of the cache that does not load was damaged: it is made anew, once.
std::unique_ptr<CpuModule> LoadCompiled(const std::string& path, const std::string& source,
                                        KernelCache& cache) {
  try {
    return std::make_unique<CpuModule>(path);
  } catch (const Error&) {
    unlink(path.c_str());
    return std::make_unique<CpuModule>(CpuCompiler().Compile(source, cache));
  }
}

// Compiles all sources, side by side. Returns a path for each module, "" for those with a binary.
std::vector<std::string> CompileAll(const Plan& plan, const CpuCompiler& compiler,
                                    KernelCache& cache, const std::vector<bool>& wanted) {
  const int n = static_cast<int>(plan.modules.size());
  std::vector<std::string> paths(n);
  std::vector<std::exception_ptr> errors(n);
#pragma omp parallel for schedule(dynamic)
  for (int m = 0; m < n; ++m) {
    if (!wanted[m]) continue;
    try {
      paths[m] = compiler.Compile(plan.modules[m].source, cache);
    } catch (...) {
      errors[m] = std::current_exception();
    }
  }
  for (const std::exception_ptr& e : errors) {
    if (e) std::rethrow_exception(e);
  }
  return paths;
}

// Whether the file is as long as its header says. The loader maps what it promises, and what is
// missing would be a bus error.
bool IsWhole(const std::string& path) {
  ElfW(Ehdr) header = {};
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(&header), sizeof(header));
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  return in && !error && header.e_shoff <= size &&
         uint64_t{header.e_shnum} * header.e_shentsize <= size - header.e_shoff;
}

void CheckLanguage(const Plan& plan) {
  for (const KernelModule& module : plan.modules) {
    if (module.language == Language::kCpp) continue;
    Fail(ErrorCode::kInvalidArgument, "plan ", plan.name, " for the CPU holds a CUDA module");
  }
}

}  // namespace

CpuModule::CpuModule(const std::string& path)
    : handle_(IsWhole(path) ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr), path_(path) {
  if (handle_ != nullptr) return;
  const char* why = dlerror();
  Fail(ErrorCode::kEnvironment,
       "cannot load kernels: ", why == nullptr ? StrCat(path, " is cut short") : why);
}

CpuModule::~CpuModule() { dlclose(handle_); }

CpuKernel CpuModule::Find(const std::string& name) const {
  void* symbol = dlsym(handle_, name.c_str());
  if (symbol == nullptr) Fail(ErrorCode::kInvalidArgument, "no kernel ", name, " in ", path_);
  return reinterpret_cast<CpuKernel>(symbol);
}

std::vector<std::unique_ptr<CpuModule>> LoadModules(const Plan& plan,
                                                    const std::string& cache_dir) {
  std::vector<std::unique_ptr<CpuModule>> modules(plan.modules.size());
  if (modules.empty()) return modules;
  CheckLanguage(plan);
  KernelCache cache(KernelCacheDir(cache_dir));
  const bool binaries_run = BinariesRunHere(plan);
  std::vector<bool> compile;
  bool any = false;
  for (const KernelModule& module : plan.modules) {
    compile.push_back(module.binary.empty() || !binaries_run);
    any = any || compile.back();
  }
  std::vector<std::string> paths(plan.modules.size());
  if (any) paths = CompileAll(plan, CpuCompiler(), cache, compile);
  for (size_t m = 0; m < modules.size(); ++m) {
    modules[m] = compile[m] ? LoadCompiled(paths[m], plan.modules[m].source, cache)
                            : LoadBinary(plan.modules[m], cache);
  }
  return modules;
}

void CompileCpuPlan(Plan& plan, const ExecutorOptions& options) {
  CheckLanguage(plan);
  if (plan.modules.empty()) return;
  KernelCache cache(KernelCacheDir(options.cache_dir));
  const CpuCompiler compiler;
  const std::vector<std::string> paths =
      CompileAll(plan, compiler, cache, std::vector<bool>(plan.modules.size(), true));
  for (size_t m = 0; m < paths.size(); ++m) {
    KernelModule& module = plan.modules[m];
    module.key = compiler.KeyOf(module.source);
    std::ifstream in(paths[m], std::ios::binary);
    module.binary.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    if (!in || module.binary.empty()) Fail(ErrorCode::kIo, "cannot read ", paths[m]);
  }
  plan.fingerprint[kCpuFeaturesKey] = CpuFeatures();
  plan.fingerprint[kCpuCompilerKey] = compiler.version();
  plan.fingerprint["onednn"] = OneDnnVersion();
}

}  // namespace stator
