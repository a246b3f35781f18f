#include "serve/http/routes.h"

namespace serve {

HttpRoutes::Match HttpRoutes::find(std::string_view method, std::string_view path) const {
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  Match match;
  for (const Route& route : routes_) {
    const bool open_ended = route.path.ends_with('*');
    const auto start = std::string_view(route.path).substr(0, route.path.size() - open_ended);
    if (open_ended ? !path.starts_with(start) || path.size() == start.size() : path != start) continue;
    const std::string rest(path.substr(start.size()));
    if (route.method == wanted) return {&route, route.path, rest, ""};
    match.path = route.path;
    const std::string name = route.method == "GET" ? "GET, HEAD" : route.method;
    if (!lists_word(match.allow, route.method)) match.allow += (match.allow.empty() ? "" : ", ") + name;
  }
  return match;
}

}  // namespace serve
