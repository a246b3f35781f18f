// Receipts: what an answer was computed from, and a chain of hashes over its logits, so that anyone who has the model
// can compute it again and compare (docs/receipts.md).
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/core/request.h"
#include "tenon/io/json_fwd.h"
#include "tenon/io/sha256.h"

namespace tenon {

class Fields;  // io/fields.h

/// An adapter of an answer.
struct ReceiptAdapter {
  std::string name, digest;  ///< digest: PeftAdapter::digest
  float weight = 1;

  friend bool operator==(const ReceiptAdapter&, const ReceiptAdapter&) = default;
};

/// A receipt of one choice of an answer. `request_digest` is SHA-256 over all fields before `ids`, but `library` and
/// the names of adapters.
///
/// The chain: link 0 is request_digest. Link i + 1 is SHA-256 of link i and of the SHA-256 of row i: the raw logits,
/// [vocab], that token i was picked from, as float32 in little-endian order. `links` has the first four bytes of links
/// 1, 2, ..., and `digest` is the last link.
struct Receipt {
  static constexpr int kFormat = 1;  ///< of the JSON object; another number is refused

  std::string library;                   ///< version of the library that computed the answer
  std::string fingerprint;               ///< Engine::full_fingerprint
  std::vector<TokenId> prompt_ids;       ///< [1..]
  Options options;                       ///< those that decide tokens; the seed is that of the choice, n is 1
  std::vector<ReceiptAdapter> adapters;  ///< in the order of the request
  ConstraintSource constraint;           ///< kind empty: none
  std::vector<TokenId> ids;              ///< the answer
  FinishReason reason = FinishReason::stop;
  Sha256::Digest request_digest{};
  std::vector<std::uint32_t> links;  ///< [ids]
  Sha256::Digest digest{};
  std::string key;        ///< short id of the public key that `signature` is by; empty: the receipt is not signed
  std::string signature;  ///< of signed_text(), 128 lower-case hexadecimal digits; verify() does not check it
  std::vector<Sha256::Digest> chain;  ///< [ids] links 1, 2, ... whole; empty for a receipt that was read
};

/// SHA-256 over all fields of a receipt before `ids`: of their JSON, keys sorted, without spaces. `library` is left
/// out, as another version may verify it, and so are the names of adapters: an adapter may lie elsewhere where it is
/// verified, and its digest says what it is.
Sha256::Digest request_digest(const Receipt& receipt);

/// The bytes that an Ed25519 signature of the receipt signs: "tenon receipt\n", and then the JSON of all fields but
/// `signature`, keys sorted, without spaces, in UTF-8.
std::string signed_text(const Receipt& receipt);

/// The receipt as a JSON object. `key` and `signature` are in it if it is signed. Text that is no UTF-8 has U+FFFD in
/// place of its wrong bytes.
Json to_json(const Receipt& receipt);

/// Reads such an object. Error invalid_request, with the field's name, for a field that is missing, unknown, of another
/// type or out of range. `key` and `signature` may be missing, both together. The digests are not compared here
/// (verify.h), and the signature is not checked.
Receipt receipt_from(const Json& json);

/// 64 lower-case hexadecimal digits.

namespace detail {

// The options that decide tokens; the others have their defaults.
Options deciding(const Options& options);

// The same as JSON. logit_bias must be finite.
Json json_of_options(const Options& options);
// Error of `fields` where one is missing, unknown or out of range. Options::receipt is true.
Options options_from(const Fields& fields);

// Error of `fields` for a member that is not known.
void refuse_other_fields(const Fields& fields, std::set<std::string_view> known);

// A finite float32.
float float_of(const Fields& fields, const char* key);

// A finite float32, in as few digits as read back as the same bits.
double shortest_double(float value);

// The value of 64 lower-case hexadecimal digits; empty: they are none.
std::optional<Sha256::Digest> digest_from(std::string_view digits);

// The first four bytes of a link, as `links` has them.
std::uint32_t first_word(const Sha256::Digest& digest);

// Writes the receipt of one choice while its tokens come.
class ReceiptWriter {
 public:
  // begun: without ids, reason and digests.
  explicit ReceiptWriter(Receipt begun);

  // A new token. row: SHA-256 of the logits that it was picked from.
  void add(TokenId token, const Sha256::Digest& row);

  // A token with its link.
  void add_link(TokenId token, const Sha256::Digest& link);

  const std::vector<Sha256::Digest>& chain() const { return receipt_.chain; }

  std::shared_ptr<const Receipt> finished(FinishReason reason) const;

 private:
  Receipt receipt_;
};

// SHA-256 of a row of logits, as float32 in little-endian order.
Sha256::Digest digest_of_row(std::span<const float> logits);

// Computes digests of rows of one length, in pairs: Sha256::both.
class RowDigests {
 public:
  // Writes the digest now or later; `row` and `to` must stay until finish().
  void add(std::span<const float> row, Sha256::Digest& to);
  void finish();

 private:
  std::span<const float> waiting_;
  Sha256::Digest* to_ = nullptr;  // of the waiting row; null: none waits
};

}  // namespace detail
}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/receipt-inl.h"
#endif
