// Exceptions that end the program with an exit status of their own; every other one ends it with 1.
#pragma once
#include <exception>
#include <stdexcept>

namespace program {

// Wrong usage: 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Nobody reads the results any more (EPIPE): the end, but no failure, so 0.
class OutputClosed : public std::exception {};

// What main() returns: what `run` does, or else what it throws comes to, said in a line on stderr.
int exit_status(int (*run)(int argc, char** argv), int argc, char** argv);

}  // namespace program
