// The names of adapters on this server: where each comes from, and what it is called there.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace serve {

// "weather", "team/weather", "org/name@v2" (a revision in the hub cache), "s3:bucket/path/name" and "hub:org/name@v2"
// (what the operator's command fetches). Requests may also name the source in a field of its own.
struct AdapterReference {
  std::string source;    // "s3" or "hub": fetched by the operator's command; empty: on this machine already
  std::string id;        // one or more words with slashes between them; without a source at most two
  std::string revision;  // empty: none

  bool remote() const { return !source.empty(); }
  std::string text() const;
};

// None: the name has another form. Each word begins with a letter or digit, and has letters, digits, '.', '_' and '-';
// no ".." anywhere.
std::optional<AdapterReference> adapter_reference(std::string_view name);

}  // namespace serve
