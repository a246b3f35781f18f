// Exceptions that end the program with their own exit status. All others end it with 1.
#pragma once
#include <exception>
#include <stdexcept>

namespace program {

// Wrong usage: exit status 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The reader of the results has gone (EPIPE). This is no failure: exit status 0.
class OutputClosed : public std::exception {};

// The result of main(): that of run(), or the status of the exception that it throws, which is printed on stderr.
int exit_status(int (*run)(int argc, char** argv), int argc, char** argv);

}  // namespace program
