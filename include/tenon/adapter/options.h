// What is asked of adapters by name, and told of those that are there.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "tenon/core/request.h"

namespace tenon {

struct AdapterOptions {
  // What is on the device at once. A request that would need more, because all of it is in use, waits as long as it
  // says (SubmitOptions::adapter_wait), or is refused: overloaded.
  int count = 0;                                                // adapters; 0: any number
  std::size_t bytes = 0;                                        // of their factors; 0: any
  Clock::duration remember_failures = std::chrono::seconds(2);  // so long one that could not be read is not tried again
  // The folder of an adapter by its name. By default the name is the folder.
  std::function<std::filesystem::path(const std::string& name)> folder_of = [](const std::string& name) {
    return std::filesystem::path(name);
  };
};

// Adapters of a composition at most.
inline constexpr std::size_t kMostAdapters = 64;

struct AdapterInfo {
  std::string name, digest;
  std::size_t bytes = 0;
  int leases = 0;
  bool pinned = false;
};

struct AdapterStats {
  int resident = 0;
  std::size_t bytes = 0;
  int waiting = 0;   // requests, for room
  int versions = 0;  // with those whose name means something else by now, and that somebody still runs under
  std::uint64_t loads = 0, evictions = 0, failures = 0;
};

}  // namespace tenon
