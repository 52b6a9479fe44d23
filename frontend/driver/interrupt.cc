#include "frontend/driver/interrupt.h"

#include "ir/base/error.h"

#include <signal.h>

#include <csignal>

namespace stator {
namespace {

// A signal handler can reach nothing but a global.
volatile std::sig_atomic_t pending_signal = 0;
bool listening = false;

void Note(int signal) { pending_signal = signal; }

}  // namespace

InterruptScope::InterruptScope() {
  STATOR_CHECK(!listening, "an InterruptScope is alive already");
  listening = true;
  pending_signal = 0;
  struct sigaction action = {};
  action.sa_handler = Note;
  // The handler is gone after the first signal, so that the second has its usual effect.
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

InterruptScope::~InterruptScope() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  listening = false;
}

int InterruptScope::Pending() { return pending_signal; }

}  // namespace stator
