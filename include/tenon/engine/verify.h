// Verification of receipts: every row is computed again, every token is picked again, and the chains are compared.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/core/request.h"
#include "tenon/engine/prepared_request.h"
#include "tenon/engine/receipt.h"

namespace tenon {

/// The result of a verification.
struct ReceiptCheck {
  bool holds = true;
  std::string field = {};            ///< the first field that differs
  std::optional<int> position = {};  ///< in that field: of the answer's tokens, or of the adapters; none: no list
  std::string why = {};
};

/// The request of a receipt, without its constraint.
Request request_of(const Receipt& receipt);

/// Compares what does not need the model: the fingerprint, the digests of the adapters (`digests`, in the order of the
/// receipt), and the digest over all fields of the request.
ReceiptCheck check_request(const Receipt& receipt, std::string_view fingerprint, std::span<const std::string> digests);

/// Compares request_digest alone.
ReceiptCheck check_request_digest(const Receipt& receipt);

/// Compares a receipt with what was computed again from its request: at each position the link of the chain, then the
/// token; then the finish reason and the last link.
ReceiptCheck compare(const Receipt& receipt, const Receipt& computed);

/// Whether the answer was ended from outside before its last token.
bool is_cut(const Receipt& receipt);

/// A check that failed, from an error.
ReceiptCheck failed_check(const Error& error);

namespace detail {

ReceiptCheck differs(std::string field, std::optional<int> position, std::string why);

// Verifies receipts in one engine. E: Engine or AnyEngine, with no other request open.
template <class E>
class ReceiptVerifier {
 public:
  ReceiptVerifier(E& engine, std::span<const Receipt> receipts, const ConstraintMaker& make)
      : engine_(engine), receipts_(receipts), make_(make), checks_(receipts.size()) {}

  std::vector<ReceiptCheck> run() {
    require(engine_.idle(), "engine", "must be idle: a verification steps it");
    std::size_t next = 0;
    while (next < receipts_.size() || !open_.empty()) {
      while (next < receipts_.size() && begin(next)) ++next;
      engine_.set_draining(next == receipts_.size());
      if (open_.empty()) continue;
      const auto events = engine_.step();
      for (const Event& event : events) take(event);
      for (const auto& [request, reason] : std::exchange(cut_, {})) engine_.cancel(request, reason);
    }
    engine_.set_draining(false);
    return std::move(checks_);
  }

 private:
  struct Open {
    std::size_t index;
    std::size_t tokens = 0;
  };

  // Submits a receipt's request. False if its adapters have no room until another request ends.
  bool begin(std::size_t index) {
    const Receipt& receipt = receipts_[index];
    try {
      checks_[index] = check_fingerprint(receipt);
      if (!checks_[index].holds) return true;
      Request request = request_of(receipt);
      const int vocab = engine_.config().vocab;  // of a receipt that was changed, ids may be any
      std::erase_if(request.prediction, [vocab](TokenId id) { return id < 0 || id >= vocab; });
      if (!receipt.adapters.empty() && !take_lease(engine_, request, !open_.empty())) return false;
      checks_[index] = check_request(receipt, receipt.fingerprint, request.lease.digests);
      if (!checks_[index].holds) return true;
      if (!receipt.constraint.kind.empty()) {
        require(make_ != nullptr, "constraint", "needs a function that makes it from its text");
        request.constraint = make_(receipt.constraint);
      }
      const RequestId id = engine_.submit(std::move(request));
      open_.emplace(id, Open{index});
      if (is_cut(receipt) && receipt.ids.empty()) engine_.cancel(id, receipt.reason);  // before its first step
    } catch (const Error& error) {
      // An adapter may be refused because the request was changed, as one that takes no weight: the change is named.
      checks_[index] = check_request_digest(receipt);
      if (checks_[index].holds) checks_[index] = failed_check(error);
    }
    return true;
  }

  ReceiptCheck check_fingerprint(const Receipt& receipt) const {
    if (receipt.fingerprint == engine_.full_fingerprint()) return {};
    return differs(
        "fingerprint", {},
        "this engine's is " + std::string(engine_.full_fingerprint()) + " (" + engine_.numeric_class() + ")");
  }

  void take(const Event& event) {
    const auto found = open_.find(event.request);
    if (found == open_.end()) return;
    const Receipt& receipt = receipts_[found->second.index];
    if (event.kind == Event::Kind::token) {
      if (++found->second.tokens == receipt.ids.size() && is_cut(receipt))
        cut_.emplace_back(event.request, receipt.reason);
      return;
    }
    checks_[found->second.index] = event.receipt ? compare(receipt, *event.receipt)
                                                 : failed_check(Error(event.error_kind, "request", event.error));
    open_.erase(found);
  }

  E& engine_;
  const std::span<const Receipt> receipts_;
  const ConstraintMaker& make_;
  std::vector<ReceiptCheck> checks_;
  std::unordered_map<RequestId, Open> open_;
  std::vector<std::pair<RequestId, FinishReason>> cut_;  // have as many tokens as their receipts
};

}  // namespace detail

/// Verifies receipts: computes their answers again, all together, and compares. One ReceiptCheck for each, in their
/// order. Signatures are not checked. `make` makes constraints; without it, receipts with a constraint fail. E: Engine
/// or AnyEngine, from the thread that steps it. Error invalid_request, `engine`, if a request is open in it; errors of
/// Engine::step.
template <class E>
std::vector<ReceiptCheck> verify(E& engine, std::span<const Receipt> receipts, const ConstraintMaker& make = {}) {
  return detail::ReceiptVerifier<E>(engine, receipts, make).run();
}
template <class E>
ReceiptCheck verify(E& engine, const Receipt& receipt, const ConstraintMaker& make = {}) {
  return verify(engine, std::span(&receipt, 1), make).front();
}

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/verify-inl.h"
#endif
