// Ctrl-C stops an answer, and not the program.
#pragma once
#include <csignal>

namespace program {

// While an object lives, SIGINT is only noted. Objects may nest. Not safe in several threads.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Whether SIGINT came since the last call.
  static bool take();

 private:
  struct sigaction before_ {};
};

}  // namespace program
