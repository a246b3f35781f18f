// tenon: the program. Exit status 0: done; 1: a request, a check or a file failed; 2: wrong usage.
#include <csignal>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>

#include "command_line.h"
#include "exits.h"
#include "output.h"
#include "tenon/core/error.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that has had enough is told by EPIPE instead
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond ulimit -f: EFBIG, so that what was written is removed and the error named
  std::ios::sync_with_stdio(false);
  try {
    return program::run_command_line(argc, argv);
  } catch (const program::OutputClosed&) {
    return 0;
  } catch (const program::UsageError& error) {
    program::say(error.what());
    return 2;
  } catch (const std::bad_alloc&) {
    program::say("out of memory");
  } catch (const std::filesystem::filesystem_error& error) {
    program::say(error.code().message());  // what() would tell paths of the host
  } catch (const std::exception& error) {
    program::say(error.what());
  }
  return 1;
}
