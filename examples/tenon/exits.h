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

}  // namespace program
