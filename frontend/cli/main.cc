// The program `stator`: parses the command line, calls the driver, and turns errors into one line
// on stderr. Exit status: 0, 1 for an error, 2 for bad usage, 128 + signal for an interrupted run.
#include "frontend/cli/command_line.h"
#include "frontend/cli/commands.h"
#include "ir/base/error.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>

namespace {

int Run(int argc, char** argv) {
  const stator::CommandLine line = stator::ParseCommandLine(argc, argv);
  // To a run that trains a reader that is gone is a failed write, before which it saves. Others end
  // as programs in a pipe do.
  if (line.command == "train") std::signal(SIGPIPE, SIG_IGN);
  if (!line.command.empty()) return stator::RunCommand(line);
  std::fputs(line.text.c_str(), line.exit_code == 0 ? stdout : stderr);
  return line.exit_code;
}

// What was printed has arrived, or it is an error.
void FlushOutput() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  stator::Fail(stator::ErrorCode::kIo, "cannot write to the standard output",
               errno != 0 ? ": " : "", errno != 0 ? std::strerror(errno) : "");
}

}  // namespace

int main(int argc, char** argv) {
  // A terminal that is gone says so by SIGHUP, and is none any more when it is asked later.
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  try {
    const int status = Run(argc, argv);
    if (status < 128 && !terminal) FlushOutput();
    return status;
  } catch (const std::bad_alloc&) {
    std::fflush(stdout);
    std::fprintf(
        stderr,
        "stator: out of host memory; a smaller model, batch_size or block_size takes less\n");
    return 1;
  } catch (const std::exception& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "stator: %s\n", e.what());
    return 1;
  }
}
