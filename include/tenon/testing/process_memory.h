/// Memory of this process, as Linux counts it: for programs and tests that measure.
#pragma once
#include <unistd.h>

#include <fstream>
#include <string>

#include "tenon/core/require.h"

namespace tenon::testing {

/// Resident memory now, in MB (10^6 bytes). 0 without /proc.
inline double resident_megabytes() {
  std::ifstream file("/proc/self/statm");
  double all = 0, resident = 0;  // pages
  file >> all >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1e6;
}

/// The peak of resident memory since the last forget_peak() or the start of the process, in MB. 0 without /proc.
inline double peak_megabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kibibytes = 0;
    if (word == "VmHWM:" && status >> kibibytes) return kibibytes * 1.024e-3;
  }
  return 0;
}
/// Restarts peak_megabytes() from the resident memory now.
inline void forget_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace tenon::testing
