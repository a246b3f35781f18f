#include "serve/api/origin.h"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(server_origin)

using namespace serve;

BOOST_AUTO_TEST_CASE(authorities) {
  const auto parsed = [](std::string_view text) {
    const auto authority = Authority::parse(text);
    return authority ? authority->host + " " + authority->port : "none";
  };
  BOOST_TEST(parsed("a.example") == "a.example ");
  BOOST_TEST(parsed("A.Example:8080") == "a.example 8080");
  BOOST_TEST(parsed("192.0.2.7:80") == "192.0.2.7 80");
  BOOST_TEST(parsed("[2001:DB8::1]:443") == "[2001:db8::1] 443");
  BOOST_TEST(parsed("my_host") == "my_host ");
  for (const char* text :
       {"",    ":80",    "a:", "a:0",       "a:080", "a:65536", "a:+80",     "a:8x", "a:80:80", "a b",
        "a/b", "user@a", "a?", "*.example", "[::1",  "[::1]80", "[1.2.3.4]", "[a]",  "::1",     "\xc3\xa4.example"})
    BOOST_TEST(parsed(text) == "none", text);
  BOOST_TEST(parsed(std::string(254, 'a')) == "none");
}

BOOST_AUTO_TEST_CASE(addresses_with_ports) {
  BOOST_TEST(host_and_port("::1", 8080) == "[::1]:8080");
  BOOST_TEST(host_and_port("::", 1) == "[::]:1");
  BOOST_TEST(host_and_port("fe80::1:2", 80) == "[fe80::1:2]:80");
  BOOST_TEST(host_and_port("127.0.0.1", 0) == "127.0.0.1:0");
  BOOST_TEST(host_and_port("localhost", 8080) == "localhost:8080");
}

BOOST_AUTO_TEST_CASE(loopback) {
  for (const char* host : {"localhost", "127.0.0.1", "127.255.0.9", "::1", "[::1]"})
    BOOST_TEST(is_loopback(host), host);
  for (const char* host : {"", "0.0.0.0", "128.0.0.1", "::", "[::]", "localhost.evil.example", "127.0.0.1.evil.example",
                           "127.1", "::2", "[localhost]x"})
    BOOST_TEST(!is_loopback(host), host);
}

BOOST_AUTO_TEST_CASE(origins_that_a_flag_may_name) {
  for (const char* origin :
       {"https://a.example", "http://a.example:8443", "https://192.0.2.1", "http://[2001:db8::1]:8080",
        "chrome-extension://abcdefghijklmnopabcdefghijklmnop", "moz-extension://6a1d2f9e-1111-4222-8333-444455556666",
        "safari-web-extension://0A1B2C3D-1111-4222-8333-444455556666", "app://obsidian.md", "app://.",
        "tauri://localhost", "capacitor://localhost", "vscode-webview://0ABC", "com.example+x://host:1"})
    BOOST_TEST(why_no_origin(origin) == "", origin);
  for (const char* origin : {"",
                             "null",
                             "*",
                             "https://*",
                             "https://*.example",
                             "https://a.example/",
                             "https://a.example/x",
                             "a.example",
                             "://a",
                             "https://",
                             "https//a",
                             "1app://a",
                             "ht tp://a",
                             "https://a b",
                             "https://user@a",
                             "https://a:0",
                             "https://a:x",
                             "file://",
                             "https://A.example",
                             "HTTPS://a.example",
                             "http://a.example:80",
                             "https://a.example:443",
                             "https://[::1"})
    BOOST_TEST(why_no_origin(origin) != "", origin);
  BOOST_TEST(why_no_origin("http://a.example:443") == "");  // the other scheme's port
}

BOOST_AUTO_TEST_CASE(whose_page_it_is) {
  const PageRules rules{.origins = {"https://named.example", "chrome-extension://abc", "tauri://localhost"},
                        .hosts = {"chat.example"}};
  const auto foreign = [&](const char* origin, const char* host) { return rules.is_foreign(origin, host); };
  // No page; named ones, whatever the host.
  BOOST_TEST(!foreign("", "evil.example"));
  BOOST_TEST(!foreign("https://named.example", "10.0.0.1:8080"));
  BOOST_TEST(!foreign("chrome-extension://abc", "10.0.0.1:8080"));
  BOOST_TEST(!foreign("tauri://localhost", "10.0.0.1:8080"));
  // Pages of this machine.
  for (const char* origin : {"http://localhost:3000", "http://127.0.0.1", "https://[::1]:8443"})
    BOOST_TEST(!foreign(origin, "x"), origin);
  // The server's own pages, under an address or a name that is allowed.
  BOOST_TEST(!foreign("http://192.0.2.7:8080", "192.0.2.7:8080"));
  BOOST_TEST(!foreign("http://0.0.0.0:8080", "0.0.0.0:8080"));
  BOOST_TEST(!foreign("http://[2001:db8::1]:8080", "[2001:db8::1]:8080"));
  BOOST_TEST(!foreign("http://192.0.2.7", "192.0.2.7:80"));
  BOOST_TEST(!foreign("https://192.0.2.7", "192.0.2.7"));  // behind TLS
  BOOST_TEST(!foreign("http://chat.example:8080", "Chat.Example:8080"));
  BOOST_TEST(!foreign("https://chat.example", "chat.example"));
  // DNS rebinding: the attacker's name resolves to this server by now.
  BOOST_TEST(foreign("http://evil.example:8080", "evil.example:8080"));
  BOOST_TEST(foreign("http://chat.example.evil.example", "chat.example.evil.example"));
  BOOST_TEST(foreign("http://localhost.evil.example:8080", "localhost.evil.example:8080"));
  BOOST_TEST(foreign("http://192.0.2.7.evil.example", "192.0.2.7.evil.example"));
  // Other hosts and ports.
  BOOST_TEST(foreign("http://198.51.100.1:8080", "192.0.2.7:8080"));
  BOOST_TEST(foreign("http://192.0.2.7:9090", "192.0.2.7:8080"));
  BOOST_TEST(foreign("https://192.0.2.7", "192.0.2.7:80"));
  BOOST_TEST(foreign("http://chat.example", "192.0.2.7"));
  // What is no origin of a page, and schemes that were not named.
  for (const char* origin : {"null", "x", "http://", "file://", "app://localhost", "chrome-extension://192.0.2.7",
                             "moz-extension://abc", "http://192.0.2.7/", "http://user@192.0.2.7"})
    BOOST_TEST(foreign(origin, "192.0.2.7"), origin);
  for (const char* host : {"", "192.0.2.7:", "192.0.2.7:x", "http://192.0.2.7"})
    BOOST_TEST(foreign("http://192.0.2.7", host), host);
}

BOOST_AUTO_TEST_SUITE_END()
