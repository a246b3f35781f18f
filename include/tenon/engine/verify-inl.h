#pragma once
#include <algorithm>
#include <utility>

#include "tenon/core/require.h"
#include "tenon/engine/verify.h"
#include "tenon/io/file.h"

namespace tenon {

namespace detail {

TENON_INLINE ReceiptCheck differs(std::string field, std::optional<int> position, std::string why) {
  return {.holds = false, .field = std::move(field), .position = position, .why = std::move(why)};
}

}  // namespace detail

TENON_INLINE bool is_cut(const Receipt& receipt) {
  return receipt.reason == FinishReason::cancelled || receipt.reason == FinishReason::deadline;
}

TENON_INLINE Request request_of(const Receipt& receipt) {
  Request request;
  request.input_ids = receipt.prompt_ids;
  for (const ReceiptAdapter& each : receipt.adapters) request.adapters.push_back({each.name, each.weight});
  request.constraint_source = receipt.constraint;
  request.options = receipt.options;
  request.options.receipt = true;
  // All rows are verified as guesses, in as few steps as a prefill. An answer that was cut leaves out its last token:
  // the step would pick one token more than it has.
  request.prediction = receipt.ids;
  if (is_cut(receipt) && !receipt.ids.empty()) request.prediction.pop_back();
  return request;
}

TENON_INLINE ReceiptCheck check_request(const Receipt& receipt, std::string_view fingerprint,
                                        std::span<const std::string> digests) {
  if (receipt.fingerprint != fingerprint)
    return detail::differs("fingerprint", {}, "the engine's is " + std::string(fingerprint));
  for (std::size_t i = 0; i < receipt.adapters.size(); ++i) {
    const ReceiptAdapter& each = receipt.adapters[i];
    if (i < digests.size() && each.digest == digests[i]) continue;
    return detail::differs("adapters", static_cast<int>(i),
                           "the digest of \"" + printable(each.name, 60) + "\" is " +
                               (i < digests.size() ? digests[i] : std::string("unknown")));
  }
  return check_request_digest(receipt);
}

TENON_INLINE ReceiptCheck check_request_digest(const Receipt& receipt) {
  if (request_digest(receipt) == receipt.request_digest) return {};
  return detail::differs("request_digest", {}, "is not that of the receipt's request: a field of it was changed");
}

TENON_INLINE ReceiptCheck compare(const Receipt& receipt, const Receipt& computed) {
  const std::size_t both = std::min(receipt.ids.size(), computed.ids.size());
  for (std::size_t i = 0; i < both; ++i) {
    const int position = static_cast<int>(i);
    if (receipt.links[i] != computed.links[i]) return detail::differs("links", position, "the logits differ");
    if (receipt.ids[i] != computed.ids[i])
      return detail::differs("ids", position, "the token is " + std::to_string(computed.ids[i]));
  }
  // An engine that verifies guesses may have picked more tokens, to the end perhaps, before a cut answer is cancelled.
  const bool is_longer = computed.ids.size() > both;
  if (receipt.ids.size() > both || (is_longer && !is_cut(receipt)))
    return detail::differs("ids", static_cast<int>(both),
                           "the answer has " + std::to_string(computed.ids.size()) + " tokens");
  if (!is_longer && receipt.reason != computed.reason)
    return detail::differs("finish_reason", {}, std::string("is ") + to_string(computed.reason));
  const Sha256::Digest& last = both == 0 ? computed.request_digest : computed.chain.at(both - 1);
  if (receipt.digest != last)
    return detail::differs("digest", both == 0 ? std::optional<int>{} : static_cast<int>(both) - 1,
                           "the last link differs");
  return {};
}

TENON_INLINE ReceiptCheck failed_check(const Error& error) {
  constexpr std::string_view kOfReceipt = "receipt: ";  // as receipt_from() names fields
  std::string field = error.where().empty() ? "request" : error.where();
  if (field.starts_with(kOfReceipt)) field.erase(0, kOfReceipt.size());
  return detail::differs(std::move(field), {}, error.what());
}

}  // namespace tenon
