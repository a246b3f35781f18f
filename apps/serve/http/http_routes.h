// Which handler answers a method and a path.
#pragma once
#include <httplib.h>

#include <functional>
#include <optional>
#include <regex>
#include <string>
#include <vector>

namespace serve {

using HttpHandler = std::function<void(const httplib::Request&, httplib::Response&)>;

class HttpRoutes {
 public:
  // The first route that fits answers. A path with any of \^$.|?*+()[]{} is a regular expression for a whole path.
  void add(std::string method, std::string path, HttpHandler handler, bool open);

  struct Match {
    const HttpHandler* handler = nullptr;
    const std::string* path = nullptr;  // that was added; null: nobody knows the path
    std::string allow;                  // without a handler: the methods of this path
    bool open = false;
  };
  // HEAD is answered as GET. `matches` are a pattern's groups, which point into `path`.
  Match find(const std::string& method, const std::string& path, httplib::Match& matches) const;

 private:
  struct Route {
    std::string method, path;
    std::optional<std::regex> pattern;
    HttpHandler handler;
    bool open;
  };
  std::vector<Route> routes_;
};

}  // namespace serve
