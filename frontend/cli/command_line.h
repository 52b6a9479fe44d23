// The command line as plain data. The parsing library is in command_line.cc alone.
#pragma once

#include "frontend/driver/check.h"
#include "frontend/driver/probe.h"
#include "frontend/driver/profile.h"
#include "frontend/driver/resolve.h"
#include "frontend/driver/watch.h"

#include <string>

namespace stator {

struct CommandLine {
  std::string command;  // "train", "plan", "check", "profile", "probe", "tune", "sample", "doctor";
                        // "" when `text` is all there is to do
  ConfigSources config;
  std::string gpu;         // plan: a recorded device
  std::string output;      // plan, tune: file to write
  std::string load;        // plan: file to read instead of compiling
  std::string dump;        // plan: folder for the text after every pass
  bool steps = false;      // plan: list every step
  CheckOptions check;      // check
  ProfileOptions profile;  // profile
  ProbeOptions probe;      // probe
  WatchOptions watch;      // train
  std::string plan_file;   // doctor: does this plan run here?

  std::string text;   // help, the version, or what is wrong with the arguments
  int exit_code = 0;  // with `text`: 0, or 2 for bad usage
};

CommandLine ParseCommandLine(int argc, const char* const* argv);

}  // namespace stator
