// Origins of web pages (RFC 6454), and which of them may ask a server that needs no key.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace serve {

// host[:port], as in a Host header and in an origin. Letters of the host are lower case; an IPv6 address keeps its
// brackets.
struct Authority {
  std::string host, port;  // no port: empty

  static std::optional<Authority> parse(std::string_view text);
  bool is_address() const;  // an IPv4 or IPv6 literal, which no DNS server can redirect
};

// 127.0.0.1:8080, [::1]:8080
std::string host_and_port(const std::string& host, int port);

// Addresses that only this machine reaches: localhost, 127.0.0.0/8, ::1 (brackets or not). Other names are not looked
// up.
bool is_loopback(std::string_view host);

// Why a flag cannot name that origin; empty: it can. An origin is SCHEME://HOST[:PORT], of http, https, or the scheme
// of an extension or app, as in chrome-extension://ID, moz-extension://ID, app://HOST and tauri://localhost.
std::string why_no_origin(std::string_view text);

// Whether a browser sent the request for a page that may not ask: a page is the server's own, or of this machine, or
// named.
struct PageRules {
  std::vector<std::string> origins;  // named, compared as they stand
  // Names under which people reach this server, in lower case. A page is the server's own where its origin's host is
  // the request's, and is an address, or one of these. Equality alone proves nothing: an attacker's name may be made to
  // resolve to this server after the attacker's page has been loaded (DNS rebinding).
  std::vector<std::string> hosts;

  bool is_foreign(const std::string& origin, const std::string& host) const;
};

}  // namespace serve
