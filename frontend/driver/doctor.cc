#include "frontend/driver/doctor.h"

#include "frontend/driver/data.h"
#include "frontend/driver/report.h"
#include "ir/base/error.h"
#include "runtime/cpu/compiler.h"
#include "runtime/cpu/module.h"
#include "runtime/executor.h"
#include "runtime/kernel_cache.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>
#ifdef STATOR_WITH_CUDA
#include "runtime/cuda/device.h"
#endif

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace stator {
namespace {

using Findings = std::vector<Finding>;

std::string Field(const char* path, const std::string& key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find(':');
    if (colon != std::string::npos) return std::string(Trim(line.substr(colon + 1)));
  }
  return "";
}

void ExamineSystem(Findings& out) {
  utsname system{};
  uname(&system);
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  out.push_back({Verdict::kOk, "system",
                 StrCat(system.sysname, " ", system.release, ", ", system.machine, ", ",
                        FormatBytes(memory))});
  out.push_back({Verdict::kOk, "cpu",
                 StrCat(Field("/proc/cpuinfo", "model name"), ", ",
                        std::thread::hardware_concurrency(), " threads; ", CpuFeatures())});
}

// The one that compiles the CPU's kernels.
void ExamineCompiler(Findings& out) {
  try {
    out.push_back({Verdict::kOk, "compiler", CpuCompiler().version()});
  } catch (const Error& e) {
    out.push_back({Verdict::kProblem, "compiler", e.what()});
  }
}

std::string OneDnn() {
  const dnnl_version_t* v = dnnl_version();
  return StrCat(v->major, ".", v->minor, ".", v->patch);
}

void ExamineCpuLibraries(Findings& out) {
  out.push_back({Verdict::kOk, "OpenMP",
                 StrCat("version ", _OPENMP, ", ", omp_get_max_threads(), " threads")});
  out.push_back({Verdict::kOk, "oneDNN", OneDnn()});
}

void ExamineFiles(Findings& out) {
  try {
    const std::string directory = KernelCacheDir("");
    const KernelCache cache(directory);  // creates it
    int64_t bytes = 0;
    for (const auto& e : std::filesystem::directory_iterator(directory)) {
      if (e.is_regular_file()) bytes += static_cast<int64_t>(e.file_size());
    }
    const bool writable = access(directory.c_str(), W_OK) == 0;
    out.push_back({writable ? Verdict::kOk : Verdict::kProblem, "cache",
                   StrCat(directory, ", ", FormatBytes(static_cast<double>(bytes)),
                          writable ? "" : ", not writable")});
  } catch (const std::exception& e) {
    out.push_back({Verdict::kProblem, "cache", e.what()});
  }
  try {
    out.push_back({Verdict::kOk, "text", StrCat(FortuneFiles().size(), " files of fortunes")});
  } catch (const Error& e) {
    out.push_back({Verdict::kAbsent, "text", e.what()});
  }
}

#ifdef STATOR_WITH_CUDA
void ExamineCuda(Findings& out) {
  const DeviceFacts facts = FindDeviceFacts();
  for (const DeviceInfo& d : facts.devices) {
    out.push_back(
        {d.sm < kOldestSm ? Verdict::kProblem : Verdict::kOk, "GPU",
         StrCat(d.name, ", sm_", d.sm, ", ", d.multiprocessors, " multiprocessors, ",
                FormatBytes(static_cast<double>(d.memory_bytes)),
                d.sm < kOldestSm ? StrCat("; sm_", kOldestSm, " is the oldest that works") : "")});
  }
  bool driver = false;
  for (const LibraryFact& l : facts.libraries) {
    driver = driver || (l.name == "driver" && !l.version.empty());
    const bool absent = l.version.empty();
    out.push_back({absent ? Verdict::kAbsent : Verdict::kOk, l.name,
                   StrCat(absent ? "not found" : l.version, l.path.empty() ? "" : " ", l.path,
                          l.note.empty() ? "" : "; ", l.note)});
  }
  // A driver that is there and of no use is a problem; none at all is not.
  if (!facts.why_no_device.empty()) {
    out.push_back({driver ? Verdict::kProblem : Verdict::kAbsent, "GPU", facts.why_no_device});
  }
}
#else
void ExamineCuda(Findings& out) {
  const bool driver = std::filesystem::exists("/proc/driver/nvidia/version");
  out.push_back({driver ? Verdict::kProblem : Verdict::kAbsent, "CUDA",
                 driver
                     ? "there is an NVIDIA driver, but this stator was built without CUDA: install "
                       "the CUDA 13 toolkit and build again"
                     : "this stator was built without CUDA, and there is no NVIDIA driver"});
}
#endif

// Another version computes as well, but perhaps not the same bits.
void ExamineFingerprint(const Plan& plan, Findings& out) {
  const std::map<std::string, std::string> here = {{"onednn", OneDnn()}};
  for (const auto& [name, version] : plan.fingerprint) {
    if (name == kCpuFeaturesKey) {
      const bool runs = HasCpuFeatures(version);
      out.push_back({runs ? Verdict::kOk : Verdict::kAbsent, name,
                     runs
                         ? "the plan's kernels run on this processor"
                         : "the plan's kernels are for another processor and compiled again here"});
      continue;
    }
    const auto ours = here.find(name);
    const bool differs = ours != here.end() && ours->second != version;
    out.push_back(
        {differs ? Verdict::kAbsent : Verdict::kOk, name,
         StrCat("made with ", version, differs ? StrCat(", here is ", ours->second) : "")});
  }
}

}  // namespace

std::vector<Finding> ExamineMachine() {
  Findings out;
  ExamineSystem(out);
  ExamineCompiler(out);
  ExamineCpuLibraries(out);
  ExamineCuda(out);
  ExamineFiles(out);
  return out;
}

std::vector<Finding> ExaminePlan(const Plan& plan) {
  Findings out;
  std::unique_ptr<Target> target;
  std::string why_not;
  if (plan.device == DeviceKind::kCpu) {
    target = MakeCpuTarget();
  } else if (HasCudaDevice(&why_not)) {
    target = MakeCudaTarget(0);
  }
  if (!target) {
    out.push_back(
        {Verdict::kProblem, "device", StrCat("the plan is for ", plan.target, "; ", why_not)});
    return out;
  }
  const std::string here =
      plan.device == DeviceKind::kCuda ? StrCat("sm_", target->sm()) : target->name();
  const bool same = plan.target == here || plan.device == DeviceKind::kCpu;
  out.push_back({same ? Verdict::kOk : Verdict::kProblem, "device",
                 StrCat("the plan is for ", plan.target, ", here is ", here)});
  const double need = static_cast<double>(plan.state_bytes + plan.arena_bytes + plan.io_bytes);
  const bool fits =
      target->memory_bytes() <= 0 || need <= static_cast<double>(target->memory_bytes());
  out.push_back({fits ? Verdict::kOk : Verdict::kProblem, "memory",
                 StrCat("the plan takes ", FormatBytes(need), ", the device has ",
                        FormatBytes(static_cast<double>(target->memory_bytes())))});
  ExamineFingerprint(plan, out);
  return out;
}

bool PrintFindings(const std::vector<Finding>& findings) {
  bool fine = true;
  for (const Finding& f : findings) {
    const char* mark = f.verdict == Verdict::kOk       ? "ok"
                       : f.verdict == Verdict::kAbsent ? "--"
                                                       : "!!";
    std::printf("%s  %-10s %s\n", mark, f.name.c_str(), f.text.c_str());
    fine = fine && f.verdict != Verdict::kProblem;
  }
  return fine;
}

}  // namespace stator
