// The subcommands of `stator`.
#pragma once

#include "frontend/cli/command_line.h"

namespace stator {

// Returns the exit status. Throws `Error`.
int RunCommand(const CommandLine& line);

}  // namespace stator
