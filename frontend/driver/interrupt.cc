#include "frontend/driver/interrupt.h"

#include "ir/base/error.h"

#include <signal.h>

#include <csignal>

namespace stator {
namespace {

// A signal handler can reach nothing but a global.
volatile std::sig_atomic_t pending_signal = 0;
bool listening = false;
bool hangs_up = false;

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
  // Whoever has asked to outlive the terminal (nohup) does.
  struct sigaction before = {};
  sigaction(SIGHUP, nullptr, &before);
  hangs_up = before.sa_handler != SIG_IGN;
  if (hangs_up) sigaction(SIGHUP, &action, nullptr);
}

InterruptScope::~InterruptScope() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  if (hangs_up) std::signal(SIGHUP, SIG_DFL);
  listening = false;
}

int InterruptScope::Pending() { return pending_signal; }

}  // namespace stator
