#include "runtime/cpu/compiler.h"

#include "ir/base/error.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

extern char** environ;

namespace stator {
namespace {

// No -ffast-math: the dtypes in the IR are the numerics. Ignoring errno and traps changes no value.
const std::vector<std::string>& Flags() {
  static const std::vector<std::string> flags = {
#if defined(__aarch64__)
    "-mcpu=native",
#else
    "-march=native",
#endif
    "-O3",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp",
    "-shared",
    "-fPIC",
    "-std=c++17",
    "-w"
  };
  return flags;
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Runs a command without a shell, output and errors to `log`. Returns the exit status, -1 when it
// could not be started or was killed.
int RunCommand(const std::vector<std::string>& command, const std::string& log) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t pid = 0;
  const int started = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (started != 0) return -1;
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

// `command --version`'s first line, "" when it does not run.
std::string VersionOf(std::vector<std::string> command) {
  char log[] = "/tmp/stator-cxx-XXXXXX";
  const int fd = mkstemp(log);
  if (fd < 0) return "";
  close(fd);
  command.push_back("--version");
  const int status = RunCommand(command, log);
  const std::string text = ReadFile(log);
  unlink(log);
  return status == 0 ? FirstLine(text) : "";
}

std::vector<std::string> Words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), std::istream_iterator<std::string>()};
}

bool IsInstructionSet(const std::string& flag) {
#if defined(__aarch64__)
  (void)flag;
  return true;
#else
  for (const char* prefix : {"sse", "ssse", "avx", "fma", "f16c", "bmi", "abm", "lzcnt", "popcnt",
                             "movbe", "gfni", "amx", "adx", "vaes", "vpclmul"}) {
    if (flag.rfind(prefix, 0) == 0) return true;
  }
  return false;
#endif
}

}  // namespace

std::string CpuFeatures() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("flags", 0) != 0 && line.rfind("Features", 0) != 0) continue;
    std::vector<std::string> found;
    for (std::string& flag : Words(line.substr(line.find(':') + 1))) {
      if (IsInstructionSet(flag)) found.push_back(std::move(flag));
    }
    std::sort(found.begin(), found.end());
    return Join(found, " ");
  }
  return "";
}

bool HasCpuFeatures(const std::string& wanted) {
  const std::vector<std::string> here = Words(CpuFeatures());
  const std::set<std::string> have(here.begin(), here.end());
  const std::vector<std::string> need = Words(wanted);
  return std::all_of(need.begin(), need.end(),
                     [&](const std::string& f) { return have.count(f) > 0; });
}

CpuCompiler::CpuCompiler() {
  if (const char* cxx = std::getenv("CXX"); cxx != nullptr && *cxx != '\0') {
    command_ = Words(cxx);
    version_ = command_.empty() ? "" : VersionOf(command_);
    if (!version_.empty()) return;
    Fail(ErrorCode::kEnvironment, "the C++ compiler in $CXX does not run: ", cxx);
  }
  // First the family Stator itself was built by, so that both use one OpenMP runtime.
#if defined(__clang__)
  const char* const names[] = {"clang++", "g++", "c++"};
#else
  const char* const names[] = {"g++", "clang++", "c++"};
#endif
  for (const char* name : names) {
    command_ = {name};
    version_ = VersionOf(command_);
    if (!version_.empty()) return;
  }
  Fail(ErrorCode::kEnvironment,
       "no C++ compiler found to compile the plan's kernels: install g++ or set CXX, or run a plan "
       "that was saved with its binaries");
}

std::string CpuCompiler::KeyOf(const std::string& source) const {
  const std::string all = StrCat(source, "\n", version_, "\n", Join(command_, " "), "\n",
                                 Join(Flags(), " "), "\n", CpuFeatures());
  return StrCat("cpu-", Hex64(HashBytes(all)), Hex64(HashBytes(all, 1)));
}

std::string CpuCompiler::Compile(const std::string& source, KernelCache& cache) const {
  const std::string key = KeyOf(source), path = cache.PathOf(key, "so");
  if (cache.Has(key, "so")) {
    cache.Touch(key, "so");
    return path;
  }
  cache.Store(key, "cc", source);
  const std::string out = cache.TemporaryPath("so"), log = cache.TemporaryPath("log");
  std::vector<std::string> command = command_;
  command.insert(command.end(), Flags().begin(), Flags().end());
  command.insert(command.end(), {"-o", out, cache.PathOf(key, "cc")});
  const int status = RunCommand(command, log);
  const std::string complaints = ReadFile(log);
  unlink(log.c_str());
  if (status != 0) {
    unlink(out.c_str());
    Fail(ErrorCode::kEnvironment, "the C++ compiler failed on ", cache.PathOf(key, "cc"), " (",
         Join(command, " "), "):\n", complaints.substr(0, 2000));
  }
  cache.Adopt(out, key, "so");
  return path;
}

}  // namespace stator
