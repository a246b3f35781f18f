// Constraints for the requests of one vocabulary. Each is compiled once and shared by all requests with the same text.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/constrain/compile.h"
#include "tenon/constrain/token_mask.h"
#include "tenon/core/constraint.h"

namespace tenon::constrain {

/// A constraint for Request::constraint: an automaton with the masks of a vocabulary. Thread-safe; requests of several
/// engines may share it.
/// States are made while texts are written. When a machine has made kMostBytes of states, later answers share a new
/// one. Answers that must end within a number of tokens have a machine of their own, so that its tables do not burden
/// the others.
class CompiledConstraint final : public Constraint {
 public:
  /// Compiles the automaton anew.
  using Compile = std::function<std::unique_ptr<Automaton>()>;
  /// Size of new states, in bytes, after which a new machine is made.
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;

  /// Compiles at once. Errors: those of `compile`.
  CompiledConstraint(Compile compile, std::shared_ptr<const Vocabulary> vocabulary)
      : vocabulary_(std::move(vocabulary)), machines_(std::make_shared<Machines>(std::move(compile), vocabulary_)) {}

  /// The state of a new answer.
  std::unique_ptr<ConstraintState> start() const override { return std::make_unique<AnswerState>(machines_); }
  /// Number of logits per mask.
  int vocab() const override { return vocabulary_->width(); }
  /// Prepares the tables of mask_within() on the first call, in the caller's thread. Returns true. Refused,
  /// unsupported, if they cost too much; then every later call throws the same.
  bool counts_tokens() const override;
  /// Parts of the schema that are not enforced; see Grammar::warnings.
  std::vector<std::string> warnings() const { return machines_->warnings; }
  /// Size of expressions, states and rows.
  std::size_t bytes() const { return machines_->bytes(); }

 private:
  struct Machine {
    Machine(std::unique_ptr<Automaton> made, std::shared_ptr<const Vocabulary> of)
        : vocabulary(std::move(of)), automaton(std::move(made)), masks(*automaton, *vocabulary) {}

    const Budget& budget() const { return automaton->grammar().budget; }

    const std::shared_ptr<const Vocabulary> vocabulary;
    std::mutex mutex;
    const std::unique_ptr<Automaton> automaton;
    TokenMasks masks;
  };

  // The machine that new answers use. A new machine is made before it replaces the old one.
  class Current {
   public:
    std::shared_ptr<Machine> get() const;
    void put(std::shared_ptr<Machine> machine);
    // Bytes of states made since put(), as a fraction of the amount that triggers a new machine, which is well below
    // the limit.
    double growth() const;
    std::size_t bytes() const;

   private:
    mutable std::mutex mutex_;
    std::shared_ptr<Machine> machine_;
    std::size_t made_ = 0;  // bytes at put()
  };

  // Shared by a constraint and its answers.
  struct Machines {
    Machines(Compile how, std::shared_ptr<const Vocabulary> of);

    std::shared_ptr<Machine> made() const { return std::make_shared<Machine>(compile(), vocabulary); }

    // The machine of answers without a token limit.
    std::shared_ptr<Machine> for_plain();
    // The machine of answers with a token limit. Called in an engine's thread: where another thread is making a new
    // machine, the old one is returned without waiting.
    std::shared_ptr<Machine> for_counting();
    // Called in the thread that sends a request. Makes a new machine at half the amount already, so that engines
    // seldom must.
    void prepare();
    // Replaces the machine of `counting`, if that succeeds.
    void renew_counting();
    std::size_t bytes() const { return plain.bytes() + counting.bytes(); }

    const std::shared_ptr<const Vocabulary> vocabulary;
    const Compile compile;
    std::vector<std::string> warnings;
    Current plain, counting;  // counting: empty until the first prepare()
    std::mutex renewing, preparing;
    std::optional<Refused> refused;  // the error of the first prepare(), if it failed
  };

  class AnswerState final : public ConstraintState {
   public:
    explicit AnswerState(std::shared_ptr<Machines> machines) : machines_(std::move(machines)) {}

    std::span<const std::uint32_t> mask() override;
    std::span<const std::uint32_t> mask_within(int tokens) override;
    void advance(TokenId token) override;
    bool must_end() override;

   private:
    static constexpr int kAnyNumber = -1;

    // Locks the machine. Picks it on the first call.
    std::unique_lock<std::mutex> begin();
    // Switches to the machine of answers with a token limit and replays the tokens so far.
    void count();
    // A copy of the row, valid until the next call.
    std::span<const std::uint32_t> kept(std::span<const MaskWord> row);

    const std::shared_ptr<Machines> machines_;
    std::shared_ptr<Machine> machine_;  // null before the first call, which picks it
    Automaton::State state_ = Automaton::kDead;
    bool counts_ = false;
    int left_ = kAnyNumber;  // tokens left, from the last mask_within()
    std::vector<TokenId> written_;
    std::vector<MaskWord> row_;
  };

  const std::shared_ptr<const Vocabulary> vocabulary_;
  const std::shared_ptr<Machines> machines_;
};

/// Compiles and caches constraints for one vocabulary. Thread-safe: compiling runs in the caller's thread.
class Constraints {
 public:
  using Pointer = std::shared_ptr<const CompiledConstraint>;  ///< shared by the requests that use it

  /// Error unsupported where some byte is not a token, because a text could then reach a dead end.
  explicit Constraints(Vocabulary vocabulary, SchemaOptions options = {}, ConstraintLimits limits = {});

  /// Constraints as in compile.h, from the cache if the same text was used before. Errors as there.
  Pointer json_schema(std::string_view text);
  template <std::same_as<OrderedJson> J>
  Pointer json_schema(const J& schema) {
    return of_schema(schema);
  }
  Pointer regex(std::string_view pattern);
  /// Exactly one of the texts, in any order. Error invalid_request where the list is empty.
  Pointer choice(std::span<const std::string> texts);
  Pointer grammar(std::string_view text);

 private:
  Pointer of_schema(const OrderedJson& schema);

  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kMostBytes = std::size_t{256} << 20;  // of all cached constraints

  struct Known {
    std::string name;
    Pointer constraint;
  };

  Pointer find_or_make(const std::string& name, CompiledConstraint::Compile compile);
  Pointer known(const std::string& name);

  const std::shared_ptr<const Vocabulary> vocabulary_;
  const SchemaOptions options_;
  const ConstraintLimits limits_;
  std::mutex mutex_;
  std::list<Known> known_;  // most recently used first
};

}  // namespace tenon::constrain

#ifndef TENON_COMPILED
#include "tenon/constrain/constraints-inl.h"
#endif
