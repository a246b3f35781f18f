#pragma once
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include "tenon/core/require.h"
#include "tenon/engine/receipt.h"
#include "tenon/io/fields.h"
#include "tenon/io/hex.h"
#include "tenon/io/json.h"
#include "tenon/version.h"

namespace tenon {

namespace detail {

inline constexpr float kLargestFloat = std::numeric_limits<float>::max();

struct FloatOption {
  const char* name;
  float Options::*member;
};
struct IntOption {
  const char* name;
  int Options::*member;
};
struct BoolOption {
  const char* name;
  bool Options::*member;
};

// The options that decide tokens, beside seed, stop, stop_ids and logit_bias.
inline constexpr FloatOption kFloatOptions[] = {
    {"temperature", &Options::temperature},
    {"top_p", &Options::top_p},
    {"min_p", &Options::min_p},
    {"typical_p", &Options::typical_p},
    {"repetition_penalty", &Options::repetition_penalty},
    {"presence_penalty", &Options::presence_penalty},
    {"frequency_penalty", &Options::frequency_penalty},
};
inline constexpr IntOption kIntOptions[] = {
    {"max_new_tokens", &Options::max_new_tokens},
    {"min_new_tokens", &Options::min_new_tokens},
    {"top_k", &Options::top_k},
};
inline constexpr BoolOption kBoolOptions[] = {
    {"ignore_eos", &Options::ignore_eos},
    {"skip_special_tokens", &Options::skip_special_tokens},
    {"finish_within_budget", &Options::finish_within_budget},
};

// 0.8 and not 0.800000011920929.
TENON_INLINE double shortest_double(float value) {
  std::array<char, 64> text;
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value);
  double number = 0;
  std::from_chars(text.data(), written.ptr, number);
  return static_cast<float>(number) == value ? number : static_cast<double>(value);
}

TENON_INLINE Json json_of_options(const Options& o) {
  Json json = {{"seed", o.seed}, {"stop", o.stop}, {"stop_ids", o.stop_ids}, {"logit_bias", Json::array()}};
  for (const auto& each : kFloatOptions) json[each.name] = shortest_double(o.*each.member);
  for (const auto& each : kIntOptions) json[each.name] = o.*each.member;
  for (const auto& each : kBoolOptions) json[each.name] = o.*each.member;
  for (const auto& [id, bias] : o.logit_bias) json["logit_bias"].push_back(Json::array({id, shortest_double(bias)}));
  return json;
}

TENON_INLINE Json json_of_request(const Receipt& r) {
  Json adapters = Json::array();
  for (const ReceiptAdapter& each : r.adapters)
    adapters.push_back({{"name", each.name}, {"digest", each.digest}, {"weight", shortest_double(each.weight)}});
  Json constraint;
  if (!r.constraint.kind.empty()) {
    constraint = {
        {"kind", r.constraint.kind}, {"text", r.constraint.text}, {"digest", Sha256().update(r.constraint.text).hex()}};
  }
  return {{"format", Receipt::kFormat},
          {"library", r.library},
          {"fingerprint", r.fingerprint},
          {"prompt_ids", r.prompt_ids},
          {"parameters", json_of_options(r.options)},
          {"adapters", std::move(adapters)},
          {"constraint", std::move(constraint)}};
}

// Keys sorted, without spaces, in UTF-8.
TENON_INLINE std::string canonical(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The value of lower-case hexadecimal digits, eight a word.
TENON_INLINE std::vector<std::uint32_t> words_of(const Fields& fields, const std::string& key) {
  const std::string text = fields.string(key);
  if (text.size() % 8 != 0 || text.find_first_not_of(kHexDigits) != text.npos)
    fields.refuse(key, "must be lower-case hexadecimal digits, a multiple of eight");
  std::vector<std::uint32_t> words(text.size() / 8);
  for (std::size_t i = 0; i < words.size(); ++i)
    std::from_chars(text.data() + 8 * i, text.data() + 8 * i + 8, words[i], 16);
  return words;
}

TENON_INLINE std::optional<Sha256::Digest> digest_from(std::string_view digits) {
  Sha256::Digest digest{};
  const auto bytes = bytes_of_hex(digits);
  if (!bytes || bytes->size() != digest.size()) return {};
  std::copy(bytes->begin(), bytes->end(), digest.begin());
  return digest;
}

TENON_INLINE Sha256::Digest digest_of(const Fields& fields, const std::string& key) {
  const auto digest = digest_from(fields.string(key));
  if (!digest) fields.refuse(key, "must have 64 lower-case hexadecimal digits");
  return *digest;
}

TENON_INLINE void refuse_other_fields(const Fields& fields, std::set<std::string_view> known) {
  for (const auto& [key, value] : fields.json().items())
    if (!known.contains(key)) fields.refuse(key, "is unknown");
}

TENON_INLINE float float_of(const Fields& fields, const char* key) {
  return static_cast<float>(
      fields.number(key, -static_cast<double>(kLargestFloat), static_cast<double>(kLargestFloat)));
}

TENON_INLINE Options options_from(const Fields& fields) {
  constexpr int kLargest = std::numeric_limits<int>::max();
  std::set<std::string_view> known{"seed", "stop", "stop_ids", "logit_bias"};
  Options o;
  for (const auto& each : kFloatOptions) {
    known.insert(each.name);
    o.*each.member = float_of(fields, each.name);
  }
  for (const auto& each : kIntOptions) {
    known.insert(each.name);
    o.*each.member = fields.integer(each.name, 0, kLargest);
  }
  for (const auto& each : kBoolOptions) {
    known.insert(each.name);
    o.*each.member = fields.boolean(each.name);
  }
  refuse_other_fields(fields, std::move(known));
  const Json& seed = fields.value("seed");
  if (!seed.is_number_unsigned()) fields.refuse("seed", "must be an integer from 0 to 2^64 - 1");
  o.seed = seed.get<std::uint64_t>();
  o.stop = fields.strings("stop");
  o.stop_ids = fields.integers("stop_ids", 0, kLargest);
  const Json& biases = fields.value("logit_bias");
  if (!biases.is_array()) fields.refuse("logit_bias", "must be a list of pairs of a token and a number");
  for (const Json& each : biases) {
    if (!each.is_array() || each.size() != 2 || !each[1].is_number())
      fields.refuse("logit_bias", "must be a list of pairs of a token and a number");
    const double bias = each[1].get<double>();
    if (!(std::fabs(bias) <= static_cast<double>(kLargestFloat))) fields.refuse("logit_bias", "must be float32");
    o.logit_bias.emplace_back(fields.check_integer("logit_bias", each[0], 0, kLargest), static_cast<float>(bias));
  }
  o.receipt = true;
  return o;
}

TENON_INLINE std::vector<ReceiptAdapter> adapters_from(const Fields& fields) {
  const Json& list = fields.value("adapters");
  if (!list.is_array()) fields.refuse("adapters", "must be a list");
  std::vector<ReceiptAdapter> adapters;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Fields each(list[i], "receipt", "adapters[" + std::to_string(i) + "]", Error::Kind::invalid_request);
    refuse_other_fields(each, {"name", "digest", "weight"});
    adapters.push_back({each.string("name"), each.string("digest"), float_of(each, "weight")});
  }
  return adapters;
}

TENON_INLINE ConstraintSource constraint_from(const Fields& fields) {
  if (fields.value("constraint").is_null()) return {};
  const Fields source = fields.object("constraint");
  refuse_other_fields(source, {"kind", "text", "digest"});
  ConstraintSource out{source.string("kind"), source.string("text")};
  if (out.kind.empty()) source.refuse("kind", "must not be empty");
  if (source.string("digest") != Sha256().update(out.text).hex())
    source.refuse("digest", "is not the SHA-256 of the text");
  return out;
}

TENON_INLINE FinishReason reason_from(const Fields& fields) {
  const std::string word = fields.string("finish_reason");
  for (const FinishReason reason :
       {FinishReason::length, FinishReason::stop, FinishReason::cancelled, FinishReason::deadline})
    if (word == to_string(reason)) return reason;
  fields.refuse("finish_reason", "must be length, stop, cancelled or deadline");
}

TENON_INLINE void read_signature(const Fields& fields, Receipt& r) {
  if (!fields.has("key") && !fields.has("signature")) return;
  r.key = fields.string("key");
  if (r.key.empty()) fields.refuse("key", "must not be empty");
  if (words_of(fields, "signature").size() != 16) fields.refuse("signature", "must have 128 hexadecimal digits");
  r.signature = fields.string("signature");
}

TENON_INLINE Options deciding(const Options& options) {
  Options o;
  for (const auto& each : kFloatOptions) o.*each.member = options.*each.member;
  for (const auto& each : kIntOptions) o.*each.member = options.*each.member;
  for (const auto& each : kBoolOptions) o.*each.member = options.*each.member;
  o.logit_bias = options.logit_bias;
  o.seed = options.seed;
  o.stop = options.stop;
  o.stop_ids = options.stop_ids;
  o.receipt = true;
  return o;
}

TENON_INLINE std::uint32_t first_word(const Sha256::Digest& digest) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 4; ++i) word = word << 8 | digest[i];
  return word;
}

TENON_INLINE ReceiptWriter::ReceiptWriter(Receipt begun) : receipt_(std::move(begun)) {
  receipt_.library = kVersion;
  receipt_.request_digest = receipt_.digest = request_digest(receipt_);
}

TENON_INLINE void ReceiptWriter::add(TokenId token, const Sha256::Digest& row) {
  add_link(token,
           Sha256().update(std::as_bytes(std::span(receipt_.digest))).update(std::as_bytes(std::span(row))).digest());
}

TENON_INLINE void ReceiptWriter::add_link(TokenId token, const Sha256::Digest& link) {
  receipt_.digest = link;
  receipt_.ids.push_back(token);
  receipt_.links.push_back(first_word(receipt_.digest));
  receipt_.chain.push_back(receipt_.digest);
}

TENON_INLINE std::shared_ptr<const Receipt> ReceiptWriter::finished(FinishReason reason) const {
  auto receipt = std::make_shared<Receipt>(receipt_);
  receipt->reason = reason;
  return receipt;
}

TENON_INLINE Sha256::Digest digest_of_row(std::span<const float> logits) {
  if constexpr (std::endian::native == std::endian::little) return Sha256().update(std::as_bytes(logits)).digest();
  Sha256 hash;
  for (const float each : logits) {
    const auto bits = std::bit_cast<std::uint32_t>(each);
    std::array<std::byte, 4> bytes;
    for (std::size_t i = 0; i < 4; ++i) bytes[i] = static_cast<std::byte>(bits >> (8 * i) & 255);
    hash.update(bytes);
  }
  return hash.digest();
}

TENON_INLINE void RowDigests::add(std::span<const float> row, Sha256::Digest& to) {
  if (to_ == nullptr) {
    waiting_ = row, to_ = &to;
  } else if constexpr (std::endian::native == std::endian::little) {
    const auto digests = Sha256::both(std::as_bytes(waiting_), std::as_bytes(row));
    *std::exchange(to_, nullptr) = digests[0];
    to = digests[1];
  } else {
    finish();
    to = digest_of_row(row);
  }
}

TENON_INLINE void RowDigests::finish() {
  if (to_ != nullptr) *std::exchange(to_, nullptr) = digest_of_row(waiting_);
}

}  // namespace detail

TENON_INLINE Sha256::Digest request_digest(const Receipt& receipt) {
  Json json = detail::json_of_request(receipt);
  for (Json& adapter : json["adapters"]) adapter.erase("name");
  json.erase("library");
  return Sha256().update(detail::canonical(json)).digest();
}

TENON_INLINE Json to_json(const Receipt& r) {
  Json json = detail::json_of_request(r);
  std::string links;
  for (const std::uint32_t link : r.links) links += hex_of(link, 8);
  json["ids"] = r.ids;
  json["finish_reason"] = to_string(r.reason);
  json["request_digest"] = hex_of(r.request_digest);
  json["links"] = std::move(links);
  json["digest"] = hex_of(r.digest);
  if (!r.key.empty()) json["key"] = r.key;
  if (!r.signature.empty()) json["signature"] = r.signature;
  return json;
}

TENON_INLINE std::string signed_text(const Receipt& receipt) {
  Json json = to_json(receipt);
  json.erase("signature");
  return "tenon receipt\n" + detail::canonical(json);
}

TENON_INLINE Receipt receipt_from(const Json& json) {
  constexpr int kLargest = std::numeric_limits<int>::max();
  if (!json.is_object()) throw Error(Error::Kind::invalid_request, "receipt", "must be an object");
  const Fields fields(json, "receipt", {}, Error::Kind::invalid_request);
  detail::refuse_other_fields(
      fields, {"format", "library", "fingerprint", "prompt_ids", "parameters", "adapters", "constraint", "ids",
               "finish_reason", "request_digest", "links", "digest", "key", "signature"});
  if (fields.integer("format", 0, kLargest) != Receipt::kFormat)
    fields.refuse("format", "must be " + std::to_string(Receipt::kFormat) + ", the only one that this version reads");
  Receipt r;
  r.library = fields.string("library");
  r.fingerprint = fields.string("fingerprint");
  r.prompt_ids = fields.integers("prompt_ids", 0, kLargest);
  if (r.prompt_ids.empty()) fields.refuse("prompt_ids", "must hold at least one token");
  r.options = detail::options_from(fields.object("parameters"));
  r.adapters = detail::adapters_from(fields);
  r.constraint = detail::constraint_from(fields);
  r.ids = fields.integers("ids", 0, kLargest);
  r.reason = detail::reason_from(fields);
  r.request_digest = detail::digest_of(fields, "request_digest");
  r.links = detail::words_of(fields, "links");
  if (r.links.size() != r.ids.size()) fields.refuse("links", "must have eight digits for each of ids");
  r.digest = detail::digest_of(fields, "digest");
  detail::read_signature(fields, r);
  return r;
}

}  // namespace tenon
