// A reference to the ledger of any cache, so that code that grants room is compiled once for all caches.
#pragma once
#include <concepts>
#include <span>
#include <string_view>

#include "tenon/core/concepts.h"

namespace tenon {

namespace detail {

// The functions of one type of ledger. Null: it lacks the refinement. forks and shrinks: whether this ledger has it,
// which may be chosen at run time (ChoosesLedger).
struct LedgerHooks {
  int (*free_tokens)(const void* ledger) = nullptr;
  int (*capacity_tokens)(const void* ledger) = nullptr;
  bool (*grow)(void* ledger, SeqId seq, int tokens) = nullptr;
  void (*release)(void* ledger, SeqId seq) = nullptr;
  PrefixMatch (*match)(const void* ledger, std::span<const TokenId> tokens, std::string_view identity) = nullptr;
  int (*reuse)(void* ledger, SeqId seq, std::span<const TokenId> tokens, std::string_view identity) = nullptr;
  void (*publish)(void* ledger, SeqId seq, std::span<const TokenId> tokens, std::string_view identity) = nullptr;
  void (*forget_prefixes)(void* ledger) = nullptr;
  bool (*forks)(const void* ledger) = nullptr;
  bool (*fork)(void* ledger, SeqId parent, SeqId child, int tokens) = nullptr;
  void (*trim)(void* ledger, SeqId seq, int before) = nullptr;
  int (*held_at_most)(const void* ledger, int tokens) = nullptr;
  bool (*shrinks)(const void* ledger) = nullptr;
  void (*shrink)(void* ledger, SeqId seq, int tokens) = nullptr;
};

template <CacheLedger L>
constexpr LedgerHooks ledger_hooks() {
  LedgerHooks hooks;
  hooks.free_tokens = [](const void* l) -> int { return static_cast<const L*>(l)->free_tokens(); };
  hooks.capacity_tokens = [](const void* l) -> int { return static_cast<const L*>(l)->capacity_tokens(); };
  hooks.grow = [](void* l, SeqId seq, int tokens) { return static_cast<L*>(l)->grow(seq, tokens); };
  hooks.release = [](void* l, SeqId seq) { static_cast<L*>(l)->release(seq); };
  if constexpr (ReusesPrefixes<L>) {
    using Tokens = std::span<const TokenId>;
    using Identity = std::string_view;
    hooks.match = [](const void* l, Tokens t, Identity i) { return static_cast<const L*>(l)->match(t, i); };
    hooks.reuse = [](void* l, SeqId seq, Tokens t, Identity i) { return static_cast<L*>(l)->reuse(seq, t, i); };
    hooks.publish = [](void* l, SeqId seq, Tokens t, Identity i) { static_cast<L*>(l)->publish(seq, t, i); };
  }
  if constexpr (ForgetsPrefixes<L>) hooks.forget_prefixes = [](void* l) { static_cast<L*>(l)->forget_prefixes(); };
  if constexpr (ForksSequences<L>) {
    hooks.fork = [](void* l, SeqId from, SeqId to, int n) { return static_cast<L*>(l)->fork(from, to, n); };
    hooks.forks = [](const void*) { return true; };
  }
  if constexpr (TrimsSequences<L>) {
    hooks.trim = [](void* l, SeqId seq, int before) { static_cast<L*>(l)->trim(seq, before); };
    hooks.held_at_most = [](const void* l, int n) -> int { return static_cast<const L*>(l)->held_at_most(n); };
  }
  if constexpr (ShrinksSequences<L>) {
    hooks.shrink = [](void* l, SeqId seq, int tokens) { static_cast<L*>(l)->shrink(seq, tokens); };
    hooks.shrinks = [](const void*) { return true; };
  }
  if constexpr (ChoosesLedger<L>) {
    hooks.forks = [](const void* l) { return static_cast<const L*>(l)->forks(); };
    hooks.shrinks = [](const void* l) { return static_cast<const L*>(l)->shrinks(); };
  }
  return hooks;
}

template <CacheLedger L>
inline constexpr LedgerHooks kLedgerHooks = ledger_hooks<L>();

}  // namespace detail

/// A reference to a ledger of any type. Without a refinement no prefix is found, nothing is forked, trimmed or shrunk,
/// and held_at_most() is its argument.
class LedgerRef {
 public:
  /// The ledger outlives the reference.
  template <class L>
  requires(!std::same_as<L, LedgerRef> && !std::same_as<L, const LedgerRef> && CacheLedger<L>) LedgerRef(L& ledger)
      : ledger_(&ledger), hooks_(&detail::kLedgerHooks<L>) {}

  int free_tokens() const { return hooks_->free_tokens(ledger_); }
  int capacity_tokens() const { return hooks_->capacity_tokens(ledger_); }
  bool grow(SeqId seq, int tokens) const { return hooks_->grow(ledger_, seq, tokens); }
  void release(SeqId seq) const { hooks_->release(ledger_, seq); }

  // ---- ReusesPrefixes, ForgetsPrefixes
  PrefixMatch match(std::span<const TokenId> tokens, std::string_view identity) const {
    return hooks_->match ? hooks_->match(ledger_, tokens, identity) : PrefixMatch{};
  }
  int reuse(SeqId seq, std::span<const TokenId> tokens, std::string_view identity) const {
    return hooks_->reuse ? hooks_->reuse(ledger_, seq, tokens, identity) : 0;
  }
  void publish(SeqId seq, std::span<const TokenId> tokens, std::string_view identity) const {
    if (hooks_->publish) hooks_->publish(ledger_, seq, tokens, identity);
  }
  void forget_prefixes() const {
    if (hooks_->forget_prefixes) hooks_->forget_prefixes(ledger_);
  }

  // ---- ForksSequences
  bool forks() const { return hooks_->forks && hooks_->forks(ledger_); }
  bool fork(SeqId parent, SeqId child, int tokens) const {
    return forks() && hooks_->fork(ledger_, parent, child, tokens);
  }

  // ---- TrimsSequences
  void trim(SeqId seq, int before) const {
    if (hooks_->trim) hooks_->trim(ledger_, seq, before);
  }
  /// The most tokens that a text of `tokens` tokens holds room for at once. With a window that is at most a ring, which
  /// a sequence keeps until it ends: a text longer than the whole cache can have room to its end.
  int held_at_most(int tokens) const { return hooks_->held_at_most ? hooks_->held_at_most(ledger_, tokens) : tokens; }

  // ---- ShrinksSequences
  bool shrinks() const { return hooks_->shrinks && hooks_->shrinks(ledger_); }
  void shrink(SeqId seq, int tokens) const {
    if (shrinks()) hooks_->shrink(ledger_, seq, tokens);
  }

 private:
  void* ledger_;
  const detail::LedgerHooks* hooks_;
};

}  // namespace tenon
