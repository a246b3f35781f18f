// Whom a request is from, as a number: its API key where the server has keys, else the address of its connection.
#pragma once
#include <string_view>

#include "serve/api/api_keys.h"
#include "serve/http/message.h"

namespace serve {

// Of the request that this thread answers.
int client_of(const ApiKeys& keys, const HttpRequest& request);

// Keys are 1 and up, in the order in which they were given; addresses are below 0: a hash of an address (of the first
// 64 bits of IPv6, which one subscriber owns). Clients whose hashes collide share. `address` as inet_ntop writes it.
int client_of_address(std::string_view address);

}  // namespace serve
