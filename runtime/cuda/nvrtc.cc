#include "runtime/cuda/nvrtc.h"

#include "ir/base/error.h"
#include "ir/base/str.h"
#include "runtime/kernel_cache.h"

#include <nvrtc.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <set>
#include <thread>

namespace stator {
namespace {

constexpr const char* kOptions[] = {"--std=c++17",      "--fmad=false", "--prec-div=true",
                                    "--prec-sqrt=true", "--ftz=false",  "-default-device"};

void CheckNvrtc(nvrtcResult status, std::string_view doing) {
  if (status == NVRTC_SUCCESS) return;
  Fail(ErrorCode::kEnvironment, "nvrtc: ", doing, ": ", nvrtcGetErrorString(status));
}

// Owns the program; NVRTC's handle is a pointer.
struct Program {
  nvrtcProgram handle = nullptr;
  ~Program() {
    if (handle != nullptr) (void)nvrtcDestroyProgram(&handle);
  }
};

std::string Architecture(std::string_view source, int sm) {
  const bool specific = sm >= 90 && (source.find("wgmma") != source.npos ||
                                     source.find("setmaxnreg") != source.npos ||
                                     source.find("tcgen05") != source.npos);
  return StrCat("sm_", sm, specific ? "a" : "");
}

std::string LogOf(nvrtcProgram program) {
  size_t size = 0;
  if (nvrtcGetProgramLogSize(program, &size) != NVRTC_SUCCESS || size < 2) return "";
  std::string log(size, '\0');
  if (nvrtcGetProgramLog(program, log.data()) != NVRTC_SUCCESS) return "";
  log.resize(size - 1);
  return log;
}

// The lines "name(12): error" speaks of, numbered, at most eight.
std::string OffendingLines(const std::string& log, const std::string& source) {
  std::set<size_t> lines;
  for (size_t at = 0; (at = log.find("): error", at)) != log.npos; ++at) {
    const size_t open = log.rfind('(', at);
    if (open == log.npos) continue;
    size_t line = 0;
    for (size_t i = open + 1; i < at && log[i] >= '0' && log[i] <= '9'; ++i) {
      line = line * 10 + static_cast<size_t>(log[i] - '0');
    }
    if (line > 0 && lines.size() < 8) lines.insert(line);
  }
  const std::vector<std::string> text = Split(source, '\n');
  std::string out;
  for (const size_t line : lines) {
    if (line <= text.size()) out += StrCat("\n  ", line, ": ", text[line - 1]);
  }
  return out;
}

}  // namespace

std::vector<char> CompileCuda(const std::string& source, int sm, const std::string& name,
                              std::string* report) {
  Program program;
  CheckNvrtc(nvrtcCreateProgram(&program.handle, source.c_str(), (name + ".cu").c_str(), 0, nullptr,
                                nullptr),
             "create a program");
  const std::string arch = "--gpu-architecture=" + Architecture(source, sm);
  std::vector<const char*> options(std::begin(kOptions), std::end(kOptions));
  options.push_back(arch.c_str());
  if (report != nullptr) options.push_back("--ptxas-options=-v");
  const nvrtcResult status =
      nvrtcCompileProgram(program.handle, static_cast<int>(options.size()), options.data());
  if (status != NVRTC_SUCCESS) {
    const std::string log = LogOf(program.handle);
    Fail(ErrorCode::kEnvironment, "nvrtc: cannot compile ", name, " for ", Architecture(source, sm),
         ": ", nvrtcGetErrorString(status), "\n", Trim(log), OffendingLines(log, source));
  }
  if (report != nullptr) *report = LogOf(program.handle);
  size_t size = 0;
  CheckNvrtc(nvrtcGetCUBINSize(program.handle, &size), "get the machine code of " + name);
  std::vector<char> cubin(size);
  CheckNvrtc(nvrtcGetCUBIN(program.handle, cubin.data()), "get the machine code of " + name);
  return cubin;
}

std::string NvrtcVersion() {
  int major = 0, minor = 0;
  CheckNvrtc(nvrtcVersion(&major, &minor), "ask for the version");
  return StrCat(major, ".", minor);
}

std::string CudaSourceKey(std::string_view source, int sm) {
  std::string facts = StrCat("cuda ", Architecture(source, sm), " nvrtc ", NvrtcVersion());
  for (const char* option : kOptions) facts += StrCat(" ", option);
  const uint64_t first = HashBytes(source, HashBytes(facts));
  return Hex64(first) + Hex64(HashBytes(source, first));
}

std::vector<std::vector<char>> CompileCudaCached(std::span<const CudaSource> sources, int sm,
                                                 KernelCache& cache) {
  std::vector<std::vector<char>> cubins(sources.size());
  std::vector<std::string> keys(sources.size());
  std::vector<size_t> missing;
  for (size_t i = 0; i < sources.size(); ++i) {
    keys[i] = CudaSourceKey(sources[i].source, sm);
    if (auto found = cache.Load(keys[i], "cubin")) {
      cubins[i] = std::move(*found);
    } else {
      missing.push_back(i);
    }
  }
  // Equal sources are compiled once: the first of them compiles, the others copy.
  std::vector<size_t> unique;
  for (const size_t i : missing) {
    const auto same = [&](size_t j) { return keys[j] == keys[i]; };
    if (std::none_of(unique.begin(), unique.end(), same)) unique.push_back(i);
  }
  std::vector<std::exception_ptr> errors(sources.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t at; (at = next.fetch_add(1)) < unique.size();) {
      const size_t i = unique[at];
      try {
        cubins[i] = CompileCuda(std::string(sources[i].source), sm, sources[i].name);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  const size_t threads =
      std::min<size_t>(unique.size(), std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::thread> pool;
  for (size_t t = 1; t < threads; ++t) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  for (const size_t i : unique) {
    cache.Store(keys[i], "cu", sources[i].source);
    cache.Store(keys[i], "cubin", std::span<const char>(cubins[i]));
  }
  for (const size_t i : missing) {
    if (!cubins[i].empty()) continue;
    const auto twin =
        std::find_if(unique.begin(), unique.end(), [&](size_t j) { return keys[j] == keys[i]; });
    cubins[i] = cubins[*twin];
  }
  return cubins;
}

}  // namespace stator
