/// Constraints on the tokens of an answer: a JSON schema, a regex, a grammar (tenon/constrain), or your own.
#pragma once
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "tenon/core/draft.h"
#include "tenon/core/views.h"

namespace tenon {

/// A constraint in one answer. `mask` returns [(vocab + 31) / 32] words, valid until the next call: bit id % 32 of word
/// id / 32 says whether that token may come next. At least one may. The model's end token is allowed where the text may
/// end. `advance` reports the next token, which the mask allowed. `must_end` says that only the end may come. An
/// exception that the constraint throws fails the request.
template <class C>
concept TokenConstraint = std::movable<C> && requires(C& c, TokenId token) {
  { c.mask() } -> std::convertible_to<std::span<const std::uint32_t>>;
  c.advance(token);
  { c.must_end() } -> std::same_as<bool>;
};

/// Refinement: knows how many tokens can still end a text, for Options::finish_within_budget. `tokens` is the number of
/// tokens that the text may still have, the next one included. mask_within() allows a token if mask() does and the text
/// can end within that number. After it, must_end() also obeys the number that was given last.
template <class C>
concept CountsTokens = TokenConstraint<C> && requires(C& c, int tokens) {
  { c.mask_within(tokens) } -> std::convertible_to<std::span<const std::uint32_t>>;
};

/// Refinement: knows text that must come next, such as the keys of a JSON schema. Adds the tokens that are likely to
/// write it. They are guesses, which the engine verifies: the model still chooses among the tokens of mask().
template <class C>
concept GuessesTokens = TokenConstraint<C> && requires(C& c, DraftWriter& out) {
  { c.guess(out) } -> std::same_as<void>;
};

/// A TokenConstraint of any type, in one answer.
class ConstraintState {
 public:
  virtual ~ConstraintState() = default;
  virtual std::span<const std::uint32_t> mask() = 0;
  virtual std::span<const std::uint32_t> mask_within(int tokens) = 0;
  virtual void advance(TokenId token) = 0;
  virtual bool must_end() = 0;
  virtual void guess(DraftWriter& out) = 0;
};

/// A constraint that a request brings. Each of its answers begins with start(). Requests may share one; its functions
/// may run in several threads at once.
class Constraint {
 public:
  virtual ~Constraint() = default;
  virtual std::unique_ptr<ConstraintState> start() const = 0;  ///< never null; it keeps alive what it needs
  virtual int vocab() const = 0;                               ///< logits of the model that it is for
  /// Whether its states implement mask_within (CountsTokens). Called before a request that needs it is accepted. Throws
  /// Error unsupported if the constraint is too complex for that.
  virtual bool counts_tokens() const { return false; }
};

namespace detail {
template <TokenConstraint C>
class StateOf final : public ConstraintState {
 public:
  explicit StateOf(C constraint) : constraint_(std::move(constraint)) {}
  std::span<const std::uint32_t> mask() override { return constraint_.mask(); }
  std::span<const std::uint32_t> mask_within([[maybe_unused]] int tokens) override {
    if constexpr (CountsTokens<C>)
      return constraint_.mask_within(tokens);
    else
      return constraint_.mask();
  }
  void advance(TokenId token) override { constraint_.advance(token); }
  bool must_end() override { return constraint_.must_end(); }
  void guess([[maybe_unused]] DraftWriter& out) override {
    if constexpr (GuessesTokens<C>) constraint_.guess(out);
  }

 private:
  C constraint_;
};

template <TokenConstraint C>
class CopiedConstraint final : public Constraint {
 public:
  CopiedConstraint(C start, int vocab) : start_(std::move(start)), vocab_(vocab) {}
  std::unique_ptr<ConstraintState> start() const override { return std::make_unique<StateOf<C>>(start_); }
  int vocab() const override { return vocab_; }
  bool counts_tokens() const override { return CountsTokens<C>; }

 private:
  const C start_;
  const int vocab_;
};
}  // namespace detail

/// A constraint for Request::constraint: every answer begins with a copy of `start`. vocab: logits of the model.
template <TokenConstraint C>
requires std::copyable<C> std::shared_ptr<const Constraint> constraint_of(C start, int vocab) {
  return std::make_shared<const detail::CopiedConstraint<C>>(std::move(start), vocab);
}

}  // namespace tenon
