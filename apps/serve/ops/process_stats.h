// What the operating system says of this process: Linux, by /proc.
#pragma once
#include <cstdint>

namespace serve {

struct ProcessStats {
  std::uint64_t resident_bytes = 0, virtual_bytes = 0;
  std::uint64_t open_files = 0, most_open_files = 0;
  std::uint64_t threads = 0;
  double cpu_seconds = 0;    // user and system
  double start_seconds = 0;  // since 1970
};

// What cannot be read is 0.
ProcessStats process_stats();

}  // namespace serve
