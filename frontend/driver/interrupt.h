// Ctrl-C, SIGTERM and a closed terminal (SIGHUP) as a request: a run looks at it between updates,
// saves and ends. A second one kills the process as if nobody had listened.
#pragma once

namespace stator {

// Listens while it lives. One at a time in a process.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;

  // The signal that came, or 0.
  static int Pending();
};

}  // namespace stator
