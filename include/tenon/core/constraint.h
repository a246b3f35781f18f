// What bounds the tokens of an answer: a JSON schema, a regex, a grammar (tenon/constrain), or a user's own.
#pragma once
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "tenon/core/views.h"

namespace tenon {

// A constraint in one answer. mask(): bit id % 32 of word id / 32 says whether that token may come next, the model's
// end token too, where the text may end; at least one may. [(vocab + 31) / 32], valid until the next call. advance(): a
// token that the mask allows has come. must_end(): nothing may come but the end. A std::exception that it throws fails
// the request.
template <class C>
concept TokenConstraint = std::movable<C> && requires(C& c, TokenId token) {
  { c.mask() } -> std::convertible_to<std::span<const std::uint32_t>>;
  c.advance(token);
  { c.must_end() } -> std::same_as<bool>;
};

// Refinement: counts the tokens that can still end a text. mask_within(tokens): of mask(), the tokens after which that
// many, itself among them, can still end the text; for Options::finish_within_budget. must_end() then heeds the number
// that it was given last.
template <class C>
concept CountsTokens = TokenConstraint<C> && requires(C& c, int tokens) {
  { c.mask_within(tokens) } -> std::convertible_to<std::span<const std::uint32_t>>;
};

// Its type forgotten.
class ConstraintState {
 public:
  virtual ~ConstraintState() = default;
  virtual std::span<const std::uint32_t> mask() = 0;
  virtual std::span<const std::uint32_t> mask_within(int tokens) = 0;
  virtual void advance(TokenId token) = 0;
  virtual bool must_end() = 0;
};

// What a request brings: where each of its answers begins. Requests may share one.
class Constraint {
 public:
  virtual ~Constraint() = default;
  virtual std::unique_ptr<ConstraintState> start() const = 0;  // never null; it keeps alive what it needs
  virtual int vocab() const = 0;                               // logits of the model that it is for
  // Whether its states know what so many tokens can still end. Asked before a request is taken that needs it: what that
  // is too complex for is refused here. Error unsupported.
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

// For Request::constraint: every answer begins with a copy of `start`.
template <TokenConstraint C>
requires std::copyable<C> std::shared_ptr<const Constraint> constraint_of(C start, int vocab) {
  return std::make_shared<const detail::CopiedConstraint<C>>(std::move(start), vocab);
}

}  // namespace tenon
