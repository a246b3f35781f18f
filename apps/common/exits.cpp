#include "exits.h"

#include <filesystem>
#include <new>

#include "output.h"

namespace program {

int exit_status(int (*run)(int argc, char** argv), int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const OutputClosed&) {
    return 0;
  } catch (const UsageError& error) {
    say(error.what());
    return 2;
  } catch (const std::bad_alloc&) {
    say("out of memory");
  } catch (const std::filesystem::filesystem_error& error) {
    say(error.code().message());  // what() would reveal paths of the host
  } catch (const std::exception& error) {
    say(error.what());
  }
  return 1;
}

}  // namespace program
