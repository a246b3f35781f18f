#include "serve/ops/memory_reserve.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <fstream>
#include <list>
#include <new>
#include <string>

#include "tenon/io/json.h"

BOOST_AUTO_TEST_SUITE(server_memory_reserve)

namespace {

constexpr int kTimes = 3;

rlim_t address_space() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

// Makes objects as large as a body may hold until there is no memory, and destroys them.
bool runs_out() {
  constexpr int kMembers = 400'000;
  try {
    std::list<tenon::Json> objects;
    for (;;) {
      tenon::Json& object = objects.emplace_back(tenon::Json::object());
      for (int i = 0; i < kMembers; ++i) object[std::to_string(i)] = i;
    }
  } catch (const std::bad_alloc&) {
    return true;
  }
}

// The wait status of a process that runs out of memory that many times within 48 MiB more than it has.
int status_of_process(bool with_reserve) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(STDERR_FILENO);  // the words of std::terminate
    std::signal(SIGABRT, SIG_DFL);
    const rlim_t most = address_space() + (rlim_t{48} << 20);
    const rlimit limit{most, most};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(2);
    int times = 0;
    for (int i = 0; i < kTimes; ++i) {
      if (with_reserve) serve::hold_memory_reserve();
      times += runs_out();
    }
    ::_exit(times == kTimes ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace

BOOST_AUTO_TEST_CASE(large_values_are_destroyed_where_memory_has_run_out) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  BOOST_TEST_MESSAGE("skipped: sanitizers map terabytes");
#else
  const int without = status_of_process(false);
  BOOST_TEST_MESSAGE("without a reserve the process ends with the wait status "
                     << without);  // SIGABRT with nlohmann-json 3.11
  BOOST_TEST(status_of_process(true) == 0);
#endif
}

BOOST_AUTO_TEST_SUITE_END()
