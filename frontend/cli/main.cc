// The program `stator`: parses the command line, calls the driver, and turns errors into one line
// on stderr. Exit status: 0, 1 for an error, 2 for bad usage, 128 + signal for an interrupted run.
#include "frontend/cli/command_line.h"
#include "frontend/cli/commands.h"
#include "ir/base/error.h"

#include <cstdio>
#include <new>

int main(int argc, char** argv) {
  try {
    const stator::CommandLine line = stator::ParseCommandLine(argc, argv);
    if (line.command.empty()) {
      std::fputs(line.text.c_str(), line.exit_code == 0 ? stdout : stderr);
      return line.exit_code;
    }
    return stator::RunCommand(line);
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
