// A request and its response, as handlers see them: no socket, no framing.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/http/limits.h"

namespace serve {

/// In the order sent. Names are compared without regard to case.
using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

bool same_word(std::string_view a, std::string_view b);         ///< equal but for the case of ASCII letters
bool lists_word(std::string_view list, std::string_view word);  ///< in a list with commas
bool is_token(std::string_view text);                           ///< RFC 9110, 5.6.2
bool is_field_value(std::string_view text);                     ///< no control characters but tabs

/// The client at the other end, for a handler that runs on another thread than the connection's.
class HttpPeer {
 public:
  virtual ~HttpPeer() = default;
  /// The answer would reach no client: it closed (half of it counts) or reset, or the server stops. One poll.
  virtual bool gone() const = 0;
  /// IP address without its port; empty for a Unix socket.
  virtual std::string address() const = 0;
};

struct HttpRequest {
  std::string method, target;  ///< target in origin form; empty until the request line has been accepted
  std::string path, query;     ///< path: percent-decoded; query: as sent
  bool version_1_0 = false;
  HttpHeaders headers;
  std::string body;

  // How the body is framed.
  bool chunked = false;
  std::size_t length = 0;  ///< if not chunked
  bool expects_continue = false;
  bool close = false;  ///< the client wants no further request on this connection

  // The server adds these.
  std::string route, rest;  ///< the route's path as it was added (empty: none matches); what its `*` stands for
  bool open_route = false;
  HttpRefusal refusal = {};              ///< why no handler sees this request
  HttpClock::time_point arrival{};       ///< of its first byte
  std::shared_ptr<const HttpPeer> peer;  ///< null in tests of handlers

  bool announces_body() const { return chunked || length > 0; }
  std::string header(std::string_view name) const;     ///< value of the first header with this name, else ""
  std::string parameter(std::string_view name) const;  ///< decoded value in the query, else ""
  bool client_gone() const { return peer && peer->gone(); }
};

/// A stream that is being written.
class HttpSink {
 public:
  virtual ~HttpSink() = default;
  /// Waits for a slow reader. False: the client is gone or took too long.
  virtual bool write(std::string_view bytes) = 0;
  void done() { ended_ = true; }  ///< nothing follows
  bool ended() const { return ended_; }

 private:
  bool ended_ = false;
};

struct HttpResponse {
  /// Called until it says done() or returns false, which cuts the answer.
  using Stream = std::function<bool(HttpSink&)>;

  int status = 200;
  HttpHeaders headers = {};
  std::string body = {};
  Stream stream = {};  ///< instead of a body
  bool close = false;  ///< the connection closes after this answer

  /// Replaces a header of this name. A value with control characters is dropped: it could forge other headers.
  void set_header(std::string_view name, std::string value);
  bool erase_header(std::string_view name);  ///< whether there was one
  std::string header(std::string_view name) const;
  void set_content(std::string bytes, std::string type);
  void set_stream(std::string type, Stream provider);
};

/// Percent-decoding; bytes after a `%` that are no hexadecimal digits stay.
std::string url_decoded(std::string_view text, bool plus_is_space);

}  // namespace serve
