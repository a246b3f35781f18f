// Which handler answers a method and a path.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/message.h"

namespace serve {

using HttpHandler = std::function<void(const HttpRequest&, HttpResponse&)>;

class HttpRoutes {
 public:
  struct Route {
    std::string method, path;
    HttpHandler handler;
    bool open = false;
  };
  /// The first route that matches answers. A path that ends in `*` matches any path that continues there.
  void add(Route route) { routes_.push_back(std::move(route)); }
  const std::vector<Route>& all() const { return routes_; }

  struct Match {
    const Route* route = nullptr;  ///< with the handler; null: none
    std::string path, rest;        ///< as it was added (empty: the path is unknown); what its `*` stands for
    std::string allow;             ///< without a handler: the methods of this path
  };
  /// HEAD is answered as GET.
  Match find(std::string_view method, std::string_view path) const;

 private:
  std::vector<Route> routes_;
};

}  // namespace serve
