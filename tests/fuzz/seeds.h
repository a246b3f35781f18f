// Shared parts of fuzz targets: a file in memory, and the loop over seeds.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "tenon/core/error.h"

namespace tenon::test {

// A file in memory, which is written again for each seed.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("damaged", 0)), path_("/proc/self/fd/" + std::to_string(fd_)) {
    if (fd_ < 0) throw std::runtime_error("memfd_create");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(fd_); }

  const std::filesystem::path& write(const std::string& bytes) const {
    if (::ftruncate(fd_, 0) != 0 ||
        ::pwrite(fd_, bytes.data(), bytes.size(), 0) != static_cast<::ssize_t>(bytes.size()))
      throw std::runtime_error("pwrite");
    return path_;
  }

 private:
  int fd_;
  std::filesystem::path path_;
};

// Calls load(random, seed) for the seeds of the command line: --count N from --first S on. It may throw tenon::Error,
// but no internal one. Prints the number of executions, on which scripts/fuzz-gguf counts. The generator is cheap to
// set up: mt19937 takes 20 us without optimisation.
template <class Random = std::minstd_rand, class Load>
int run_seeds(int argc, char** argv, Load load) {
  std::map<std::string, std::uint32_t> options = {{"--count", 2000}, {"--first", 1}};
  for (int i = 1; i + 1 < argc; i += 2) options.at(argv[i]) = static_cast<std::uint32_t>(std::stoul(argv[i + 1]));
  const std::uint32_t first = options["--first"], count = options["--count"];
  std::uint32_t refused = 0;
  std::set<std::string> places;  // of errors, to see that the files reach far
  for (std::uint32_t seed = first; seed != first + count; ++seed) {
    Random random(seed);
    if constexpr (std::is_same_v<Random, std::minstd_rand>) random.discard(2);  // its first values follow the seed
    alarm(20);
    try {
      load(random, seed);
    } catch (const Error& error) {
      ++refused;
      if (error.kind() == Error::Kind::internal) throw;
      places.insert(error.where());
    }
  }
  alarm(0);
  std::cout << count << " executions: " << refused << " refused, at " << places.size() << " places; the others load"
            << std::endl;
  return 0;
}

}  // namespace tenon::test
