// Options of an adapter store, and what it reports about its adapters.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "tenon/core/request.h"

namespace tenon {

/// Options of an AdapterStore. `count` and `bytes` limit the adapters on the device at one time. If adapters in use
/// fill a limit, a request waits up to SubmitOptions::adapter_wait; then it is refused as overloaded.
struct AdapterOptions {
  int count = 0;          ///< limit on adapters; 0: no limit
  std::size_t bytes = 0;  ///< limit on the bytes of their factors; 0: no limit
  /// After an adapter could not be read, its name is refused for this long without another look at the disk.
  Clock::duration remember_failures = std::chrono::seconds(2);
  /// Maps an adapter's name to its folder. By default the name is the folder.
  std::function<std::filesystem::path(const std::string& name)> folder_of = [](const std::string& name) {
    return std::filesystem::path(name);
  };
};

/// The largest number of adapters in one composition.
inline constexpr std::size_t kMostAdapters = 64;

/// A resident adapter.
struct AdapterInfo {
  std::string name, digest;
  std::size_t bytes = 0;  ///< of its factors on the device
  int leases = 0;         ///< leases and compositions that hold it
  bool pinned = false;
};

/// Counts of an AdapterStore. `loads`, `evictions` and `failures` count since its construction.
struct AdapterStats {
  int resident = 0;       ///< names with an adapter on the device
  std::size_t bytes = 0;  ///< of all versions
  int waiting = 0;        ///< requests in the admission queue
  int versions = 0;       ///< adapters on the device, including those replaced or unloaded while a lease holds them
  std::uint64_t loads = 0, evictions = 0, failures = 0;
};

}  // namespace tenon
