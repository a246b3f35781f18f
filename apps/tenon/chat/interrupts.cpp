#include "chat/interrupts.h"

namespace program {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void note_interrupt(int) { interrupted = 1; }

}  // namespace

Interrupts::Interrupts() {
  struct sigaction action {};
  action.sa_handler = note_interrupt;
  ::sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // without SA_RESTART a prompt that waits for a key ends, too
  ::sigaction(SIGINT, &action, &before_);
}

Interrupts::~Interrupts() { ::sigaction(SIGINT, &before_, nullptr); }

bool Interrupts::take() {
  const bool came = interrupted != 0;
  interrupted = 0;
  return came;
}

}  // namespace program
