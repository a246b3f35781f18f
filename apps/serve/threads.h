// Threads that the server starts. The system may refuse one: that is an error with advice, never the end by
// std::terminate.
#pragma once
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "tenon/core/error.h"

namespace serve {

inline constexpr const char* kFewerThreads =
    "lower --max-concurrent-requests or --threads, or raise the limit of threads (ulimit -u) or of address space "
    "(ulimit -v)";

// `purpose` completes "a thread that ...". tenon::Error capacity where the system refuses it.
template <class Body>
std::thread begin_thread(const std::string& purpose, Body&& body) {
  try {
    return std::thread(std::forward<Body>(body));
  } catch (const std::system_error& error) {
    throw tenon::Error(
        tenon::Error::Kind::capacity, "threads",
        "the system refused a thread that " + purpose + " (" + error.code().message() + "); " + kFewerThreads);
  }
}

}  // namespace serve
