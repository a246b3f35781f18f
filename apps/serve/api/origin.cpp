#include "serve/api/origin.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

namespace serve {
namespace {

constexpr std::size_t kLongestHost = 253;  // RFC 1035

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

template <class Condition>
bool all_of(std::string_view text, Condition condition) {
  return std::all_of(text.begin(), text.end(), condition);
}

bool is_ipv4(const std::string& host) {
  in_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1;
}

bool is_ipv6(const std::string& host) {
  in6_addr address{};
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool is_port(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && is_digit(text.front()) && text.front() != '0' &&
         port <= 65535;
}

std::string without_brackets(std::string_view host) {
  const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return std::string(in_brackets ? host.substr(1, host.size() - 2) : host);
}

struct Origin {
  std::string scheme;
  Authority authority;

  bool is_web() const { return scheme == "http" || scheme == "https"; }
  std::string default_port() const { return scheme == "http" ? "80" : scheme == "https" ? "443" : ""; }
};

std::optional<Origin> parse(std::string_view text) {
  const auto end = text.find("://");
  if (end == text.npos || end == 0) return std::nullopt;
  const std::string_view scheme = text.substr(0, end);  // RFC 3986, 3.1
  if (!is_lower(scheme.front())) return std::nullopt;
  if (!all_of(scheme, [](char c) { return is_lower(c) || is_digit(c) || c == '+' || c == '-' || c == '.'; }))
    return std::nullopt;
  auto authority = Authority::parse(text.substr(end + 3));
  if (!authority) return std::nullopt;
  return Origin{std::string(scheme), std::move(*authority)};
}

}  // namespace

std::optional<Authority> Authority::parse(std::string_view text) {
  const bool in_brackets = text.starts_with('[');
  const auto end = in_brackets ? text.find(']') : text.find(':');
  if (in_brackets && end == text.npos) return std::nullopt;
  const std::string_view host = text.substr(0, in_brackets ? end + 1 : end);
  std::string_view rest = text.substr(host.size());
  Authority result;
  std::transform(host.begin(), host.end(), std::back_inserter(result.host), lower);
  if (host.empty() || host.size() > kLongestHost) return std::nullopt;
  if (in_brackets && !is_ipv6(without_brackets(result.host))) return std::nullopt;
  const auto in_name = [](char c) { return is_lower(c) || is_digit(c) || c == '.' || c == '-' || c == '_'; };
  if (!in_brackets && !all_of(result.host, in_name)) return std::nullopt;
  if (rest.empty()) return result;
  if (rest.front() != ':' || !is_port(rest.substr(1))) return std::nullopt;
  result.port = rest.substr(1);
  return result;
}

bool Authority::is_address() const { return host.starts_with('[') || is_ipv4(host); }

std::string host_and_port(const std::string& host, int port) {
  return (is_ipv6(host) ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

bool is_loopback(std::string_view text) {
  if (text == "localhost") return true;
  const std::string host = without_brackets(text);
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

std::string why_no_origin(std::string_view text) {
  if (text == "null") return "null is what browsers send for any local file and sandboxed frame, an attacker's too";
  const auto origin = parse(text);
  if (!origin)
    return "must be SCHEME://HOST[:PORT] without a path or wildcard, as in https://a.example:8443 or "
           "chrome-extension://ID, is " +
           std::string(text);
  const bool has_capitals = std::any_of(text.begin(), text.end(), [](char c) { return c != lower(c); });
  if (origin->is_web() && has_capitals)
    return "browsers send it in lower case, and it is compared as it stands, is " + std::string(text);
  if (!origin->authority.port.empty() && origin->authority.port == origin->default_port())
    return "browsers leave out the default port :" + origin->authority.port + ", and it is compared as it stands, is " +
           std::string(text);
  return {};
}

bool PageRules::is_foreign(const std::string& origin, const std::string& host) const {
  if (origin.empty() || std::find(origins.begin(), origins.end(), origin) != origins.end()) return false;
  const auto page = parse(origin);
  if (!page || !page->is_web()) return true;
  if (is_loopback(page->authority.host)) return false;
  const auto asked = Authority::parse(host);
  if (!asked || asked->host != page->authority.host) return true;
  const auto port_of = [&](const Authority& each) { return each.port.empty() ? page->default_port() : each.port; };
  if (port_of(*asked) != port_of(page->authority)) return true;
  return !asked->is_address() && std::find(hosts.begin(), hosts.end(), asked->host) == hosts.end();
}

}  // namespace serve
