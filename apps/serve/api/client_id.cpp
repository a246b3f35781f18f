#include "serve/api/client_id.h"

#include <arpa/inet.h>

#include <cstdint>
#include <limits>
#include <string>

namespace serve {

int client_of_address(std::string_view address) {
  std::string bytes(address);
  in6_addr six{};
  if (inet_pton(AF_INET6, bytes.c_str(), &six) == 1) {
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&six);  // ::ffff:192.0.2.1: an IPv4 client of a socket for both
    const auto* const begin = reinterpret_cast<const char*>(six.s6_addr);
    bytes = mapped ? std::string(begin + 12, 4) : std::string(begin, 8);
  } else if (in_addr four{}; inet_pton(AF_INET, bytes.c_str(), &four) == 1) {
    bytes.assign(reinterpret_cast<const char*>(&four), sizeof four);
  }
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return -2 - static_cast<int>(hash & static_cast<std::uint32_t>(std::numeric_limits<int>::max() - 1));  // -1 is nobody
}

}  // namespace serve
