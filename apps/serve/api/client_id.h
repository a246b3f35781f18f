// The client of a request without a key, as a number.
#pragma once
#include <string_view>

namespace serve {

// A hash of the address, or of the first 64 bits of IPv6, which one subscriber owns. It is below 0; keys are 1 and up.
// Clients whose hashes collide share an account. `address` as inet_ntop writes it.
int client_of_address(std::string_view address);

}  // namespace serve
