// Ids of the events of streams that can be continued. An id names a place in a stream, and holds no text of it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace serve {

// The readable part of an id.
struct StreamPlace {
  std::uint64_t events = 0;  // of the stream, up to the one that has this id
  std::uint64_t seed = 0;    // that the answer draws with
  std::int64_t created = 0;  // seconds since 1970
  std::int64_t expires = 0;  // seconds since 1970
  std::string answer = {};   // the answer's id; empty: the API has none
};

// An id is bound to all of these, and says none of them.
struct StreamScope {
  std::string request;  // the route, the body, and what the server makes of them
  std::string owner;    // the name of the API key; empty: there are no keys
  std::string engine;   // the engine's fingerprint
};

// An id that a client sent back. Nothing in it is trusted before StreamSeal::check.
struct SentStreamId {
  StreamPlace place;
  std::string text;
};

// ApiError malformed where the text has not the form of an id.
SentStreamId parse_stream_id(std::string_view text);

// Writes the ids of one stream, and checks them, with a key that all replicas have.
//
// An id is "1.events.seed.created.expires.answer.tags.mac". The MAC is HMAC-SHA-256, cut to 128 bits, over all before
// it and the scope. The tags are 32 bits of an HMAC for each part of the scope, and one for the adapters: they tell
// which part differs.
class StreamSeal {
 public:
  StreamSeal(std::string key, const StreamScope& scope);

  // `digests`: of the content of the adapters, which is known once they are loaded. Before it, text() must not be
  // called.
  void bind_adapters(const std::string& digests);

  std::string text(const StreamPlace& place) const;

  // ApiError where the id is not one of this stream, or its time is over. `now`: seconds since 1970.
  void check(const SentStreamId& sent, std::int64_t now) const;
  // ApiError where the adapters have other contents than those that the stream began with.
  void check_adapters(const SentStreamId& sent) const;

 private:
  std::string tag(std::string_view part, std::string_view content) const;
  std::string mac(std::string_view text) const;

  const std::string key_;
  const std::string scope_;        // HMAC over all of it
  const std::string tags_;         // of the request, the owner and the engine
  std::string adapters_tag_ = {};  // empty: not known yet
};

}  // namespace serve
