#include "serve/http/http_routes.h"

#include <utility>

namespace serve {
namespace {

// libstdc++'s other way of matching recurses once a character, and a path of 8 KiB takes 8 MiB of stack with it; this
// one also takes no exponential time.
constexpr auto kSyntax = std::regex_constants::ECMAScript | std::regex_constants::__polynomial;

void allow_method(std::string& allow, const std::string& method) {
  const std::string name = method == "GET" ? "GET, HEAD" : method;
  if ((", " + allow + ",").find(", " + name + ",") != allow.npos) return;
  allow += (allow.empty() ? "" : ", ") + name;
}

}  // namespace

void HttpRoutes::add(std::string method, std::string path, HttpHandler handler, bool open) {
  std::optional<std::regex> pattern;
  if (path.find_first_of("\\^$.|?*+()[]{}") != path.npos) pattern.emplace(path, kSyntax);
  routes_.push_back({std::move(method), std::move(path), std::move(pattern), std::move(handler), open});
}

HttpRoutes::Match HttpRoutes::find(const std::string& method, const std::string& path, httplib::Match& matches) const {
  const std::string& wanted = method == "HEAD" ? std::string("GET") : method;
  Match match;
  for (const Route& route : routes_) {
    if (route.pattern ? !std::regex_match(path, matches, *route.pattern) : path != route.path) continue;
    if (route.method == wanted) return {&route.handler, &route.path, "", route.open};
    match.path = &route.path;
    allow_method(match.allow, route.method);
  }
  return match;
}

}  // namespace serve
