// Whom a request without a key is from, as a number.
#pragma once
#include <string_view>

namespace serve {

// Below 0 (keys are 1 and up): a hash of an address, or of the first 64 bits of IPv6, which one subscriber owns.
// Clients whose hashes collide share. `address` as inet_ntop writes it.
int client_of_address(std::string_view address);

}  // namespace serve
