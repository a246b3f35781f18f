// Ids of the events of streams that can be continued. An id names a place in a stream, and holds no text of it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace serve {

// A part of a list with its length before it, so that no two lists of parts read alike.
std::string with_length(std::string_view part);

// The readable part of an id.
struct StreamPlace {
  std::uint64_t events = 0;  // of the stream, up to the one that has this id
  std::uint64_t seed = 0;    // that the answer draws with
  std::int64_t created = 0;  // seconds since 1970
  std::int64_t expires = 0;  // seconds since 1970
  std::string answer = {};   // the answer's id; a nonce where the API has none
};

// An id is bound to all of these, and says none of them: who has no key cannot tell whether two ids share a part.
struct StreamScope {
  std::string request;  // the route, the body, and what the server makes of them
  std::string owner;    // the name of the API key; empty: there are no keys
  std::string engine;   // the engine's fingerprint, the server's version and the form of its events
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
// it, the scope and the contents of the adapters. It alone decides. The tags are five HMACs of 32 bits, which tell what
// differs: the request, the owner, the engine, the adapters, or the key with which the id itself was written. Each tag
// holds the owner and the stream's begin, so equal requests have different tags in different streams.
class StreamSeal {
 public:
  // `begin`: of the stream; its answer, seed and time of creation count.
  StreamSeal(std::string key, const StreamScope& scope, const StreamPlace& begin);

  // `digests`: of the contents of the adapters, which are known once they are loaded. text() and check_contents() need
  // them.
  void bind_adapters(const std::string& digests);

  std::string text(const StreamPlace& place) const;

  // ApiError where the id was not written with this key. The cheapest check, which says nothing of the stream.
  void check_key(const SentStreamId& sent) const;
  // ApiError where a tag says that the id is not one of this stream, or its time is over. It needs no adapter.
  // `now`: seconds since 1970. An id of another owner gives `other_key`, whatever the request is.
  void check_tags(const SentStreamId& sent, std::int64_t now) const;
  // ApiError where the adapters have other contents than those that the stream began with, or the MAC is wrong.
  void check_contents(const SentStreamId& sent) const;

 private:
  std::string tag(std::string_view part, std::string_view content) const;
  // Whether the text was written with this key.
  std::string key_tag(std::string_view text) const;
  std::string mac(std::string_view text) const;

  const std::string key_;
  const std::string stream_;       // the owner and the stream's begin
  const std::string scope_;        // HMAC over all of it
  const std::string tags_;         // of the request, the owner and the engine
  std::string adapters_ = {};      // HMAC over the digests
  std::string adapters_tag_ = {};  // empty: not known yet
};

}  // namespace serve
