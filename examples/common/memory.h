// Memory of this process, as Linux counts it.
#pragma once
#include <fstream>
#include <string>

namespace example {

// MB of memory that is resident now.
inline double resident_megabytes() {
  std::ifstream file("/proc/self/statm");
  double all = 0, resident = 0;
  file >> all >> resident;
  return resident * 4096 / 1e6;
}

// MB that were resident at most, since the last forget_peak() or the start.
inline double peak_megabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1.024e-3;
  }
  return 0;
}
inline void forget_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace example
