// Every route as data: who may ask, what the body is, and what the answer is. Handlers are registered under these rows,
// and /openapi.json is made of them.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "serve/api/api_keys.h"
#include "serve/api/field_table.h"

namespace serve {

// Rows that a setting leaves out.
enum class Offered { always, with_admin, with_page, with_receipt_key };

struct Route {
  std::string_view method, path;  // as HttpServer::route() takes it
  unsigned roles;                 // one of them opens it, where the server has keys; 0: open to all
  std::uint64_t body;             // the Place of the body's members; 0: no body
  std::string_view answer;        // a schema of openapi_schemas.h, or a media type
  std::string_view stream;        // "": never; "always"; or the member of the body that asks for one
  std::string_view summary;
  Offered offered = Offered::always;
};

std::span<const Route> route_table();

// std::logic_error where no row has them.
const Route& find_route(std::string_view method, std::string_view path);

}  // namespace serve
