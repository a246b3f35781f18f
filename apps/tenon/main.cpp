// tenon: the program. Exit status 0: success; 1: a request, a check or a file failed; 2: wrong usage.
#include <csignal>
#include <iostream>

#include "command_line.h"
#include "exits.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // writes to a closed pipe fail with EPIPE instead
  std::signal(SIGXFSZ,
              SIG_IGN);  // a file beyond ulimit -f: EFBIG, so that what was written is removed and the error named
  std::ios::sync_with_stdio(false);
  return program::exit_status(program::run_command_line, argc, argv);
}
