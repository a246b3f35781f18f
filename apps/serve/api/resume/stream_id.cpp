#include "serve/api/resume/stream_id.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <utility>

#include "serve/api/api_error.h"
#include "tenon/io/hex.h"

namespace serve {
namespace {

constexpr std::string_view kIdVersion = "1";
constexpr std::size_t kIdFields = 8;
constexpr std::size_t kMacDigits = 32, kTagDigits = 8;
constexpr std::size_t kRequestTag = 0, kOwnerTag = 1, kEngineTag = 2, kAdaptersTag = 3, kKeyTag = 4, kTags = 5;
constexpr std::size_t kLongestAnswer = 64;
constexpr std::int64_t kLastSecond = 253'402'300'799;  // of the year 9999
constexpr const char* kNotGiven = "was not given by a server with this --resume-key-file, or it was changed";

[[noreturn]] void refuse_id(const std::string& why, ApiError::Kind kind = ApiError::Kind::malformed) {
  throw ApiError(kind, "`Last-Event-ID` " + why, "Last-Event-ID");
}

std::string hmac(std::string_view key, std::string_view content) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int size = 0;
  if (!HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
            reinterpret_cast<const unsigned char*>(content.data()), content.size(), bytes.data(), &size))
    throw ApiError(ApiError::Kind::engine, "internal error");
  return tenon::hex_of(std::span(bytes).first(size));
}

template <class Integer>
Integer number_of(std::string_view text) {
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) refuse_id("is not an id of a stream");
  return value;
}

bool in_answer(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; }

std::array<std::string_view, kIdFields> fields_of(std::string_view text) {
  std::array<std::string_view, kIdFields> fields;
  for (std::size_t i = 0; i < kIdFields; ++i) {
    const std::size_t dot = text.find('.');
    if ((dot == text.npos) != (i + 1 == kIdFields)) refuse_id("is not an id of a stream");
    fields[i] = text.substr(0, dot);
    text.remove_prefix(std::min(text.size(), fields[i].size() + 1));
  }
  return fields;
}

std::string_view tag_at(std::string_view tags, std::size_t index) {
  return tags.substr(index * kTagDigits, kTagDigits);
}
std::string_view tag_in(const SentStreamId& sent, std::size_t index) { return tag_at(fields_of(sent.text)[6], index); }

// In a time that does not depend on the contents.
bool same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string in_clear(const StreamPlace& place) {
  return std::string(kIdVersion) + "." + std::to_string(place.events) + "." + std::to_string(place.seed) + "." +
         std::to_string(place.created) + "." + std::to_string(place.expires) + "." + place.answer + ".";
}

}  // namespace

std::string with_length(std::string_view part) { return std::to_string(part.size()) + ":" + std::string(part); }

SentStreamId parse_stream_id(std::string_view text) {
  const auto fields = fields_of(text);
  if (fields[0] != kIdVersion) refuse_id("is an id of another version of the server");
  if (fields[5].size() > kLongestAnswer || !std::all_of(fields[5].begin(), fields[5].end(), in_answer) ||
      fields[6].size() != kTags * kTagDigits || fields[7].size() != kMacDigits)
    refuse_id("is not an id of a stream");
  StreamPlace place{.events = number_of<std::uint64_t>(fields[1]),
                    .seed = number_of<std::uint64_t>(fields[2]),
                    .created = number_of<std::int64_t>(fields[3]),
                    .expires = number_of<std::int64_t>(fields[4]),
                    .answer = std::string(fields[5])};
  if (place.created < 0 || place.created > kLastSecond) refuse_id("is not an id of a stream");
  return {.place = std::move(place), .text = std::string(text)};
}

StreamSeal::StreamSeal(std::string key, const StreamScope& scope, const StreamPlace& begin)
    : key_(std::move(key)),
      stream_(with_length(scope.owner) + with_length(begin.answer) + std::to_string(begin.seed) + "." +
              std::to_string(begin.created) + ":"),
      scope_(hmac(key_, "scope:" + with_length(scope.request) + with_length(scope.owner) + with_length(scope.engine))),
      tags_(tag("request", scope.request) + tag("owner", scope.owner) + tag("engine", scope.engine)) {}

void StreamSeal::bind_adapters(const std::string& digests) {
  adapters_ = hmac(key_, "contents:" + digests);
  adapters_tag_ = tag("adapters", digests);
}

std::string StreamSeal::text(const StreamPlace& place) const {
  std::string text = in_clear(place) + tags_ + adapters_tag_;
  text += key_tag(text);
  return text + "." + mac(text);
}

std::string StreamSeal::tag(std::string_view part, std::string_view content) const {
  return hmac(key_, std::string(part) + ":" + stream_ + std::string(content)).substr(0, kTagDigits);
}

std::string StreamSeal::key_tag(std::string_view text) const {
  return hmac(key_, "key:" + std::string(text)).substr(0, kTagDigits);
}

std::string StreamSeal::mac(std::string_view text) const {
  return hmac(key_, "id:" + scope_ + adapters_ + ":" + std::string(text)).substr(0, kMacDigits);
}

void StreamSeal::check_key(const SentStreamId& sent) const {
  const std::string_view before_key_tag =
      std::string_view(sent.text).substr(0, sent.text.size() - kMacDigits - 1 - kTagDigits);
  if (!same(tag_in(sent, kKeyTag), key_tag(before_key_tag))) refuse_id(kNotGiven);
}

// The owner comes before the engine and the request: another client learns nothing of either.
void StreamSeal::check_tags(const SentStreamId& sent, std::int64_t now) const {
  check_key(sent);
  const auto differs = [&](std::size_t index) { return !same(tag_in(sent, index), tag_at(tags_, index)); };
  if (differs(kOwnerTag)) refuse_id("is of a stream of another API key", ApiError::Kind::other_key);
  if (now > sent.place.expires) refuse_id("has expired: the time in which the stream could be continued is over");
  if (differs(kEngineTag)) {
    refuse_id("is of another engine: its model, formats or version differ from this one", ApiError::Kind::other_engine);
  }
  if (differs(kRequestTag))
    refuse_id("is of another request: send the same body, `prediction` aside, to a server with the same settings");
}

void StreamSeal::check_contents(const SentStreamId& sent) const {
  if (!same(tag_in(sent, kAdaptersTag), adapters_tag_))
    refuse_id("is of a stream under an adapter of other content: its files were replaced");
  const std::string_view text = sent.text;
  const std::string_view signed_text = text.substr(0, text.size() - kMacDigits - 1);
  if (!same(text.substr(signed_text.size() + 1), mac(signed_text))) refuse_id(kNotGiven);
}

}  // namespace serve
