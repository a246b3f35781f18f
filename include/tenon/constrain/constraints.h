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

#include "tenon/constrain/calls.h"
#include "tenon/constrain/compile.h"
#include "tenon/constrain/token_mask.h"
#include "tenon/core/constraint.h"

namespace tenon::constrain {

/// A constraint for Request::constraint: an automaton with the masks of a vocabulary. Thread-safe; requests of several
/// engines may share it.
///
/// An automaton adds states while answers are generated. After kMostBytes of new states, new answers use a newly
/// compiled automaton; answers in progress keep theirs. Answers with a token limit use an automaton of their own,
/// because mask_within() needs tables of distances that other answers shall not pay for.
class CompiledConstraint final : public Constraint {
 public:
  /// Compiles the automaton. Called again for each new one.
  using Compile = std::function<std::unique_ptr<Automaton>()>;
  /// Bytes of new states after which a new automaton is compiled. Fewer, if ConstraintLimits::bytes leaves little.
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;

  /// Compiles the first automaton. Errors: those of `compile`.
  CompiledConstraint(Compile compile, std::shared_ptr<const Vocabulary> vocabulary)
      : vocabulary_(std::move(vocabulary)), machines_(std::make_shared<Machines>(std::move(compile), vocabulary_)) {}

  /// The state of a new answer.
  std::unique_ptr<ConstraintState> start() const override { return std::make_unique<AnswerState>(machines_); }
  /// Number of logits per mask.
  int vocab() const override { return vocabulary_->width(); }
  /// Returns true. The first call prepares the tables of mask_within() in the caller's thread. If they exceed the
  /// limits of time or memory, it throws Refused (unsupported), and so does every later call.
  bool counts_tokens() const override;
  /// Parts of the schema that are not enforced; see Grammar::warnings.
  std::vector<std::string> warnings() const { return machines_->warnings; }
  /// Memory of expressions, states and mask rows, in bytes.
  std::size_t bytes() const { return machines_->bytes(); }

 private:
  // An automaton with the masks of its states.
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
    // Bytes of states made since put(), as a fraction of the bytes after which the machine is replaced: kMostBytes, or
    // half of what the memory limit leaves if that is less.
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

    std::shared_ptr<Machine> make() const { return std::make_shared<Machine>(compile(), vocabulary); }

    // The machine of answers without a token limit.
    std::shared_ptr<Machine> for_plain();
    // The machine of answers with a token limit. Called in an engine's thread: if another thread is making a
    // new machine, it returns the old one and does not wait.
    std::shared_ptr<Machine> for_counting();
    // Makes the machine of answers with a token limit, or replaces it if its growth exceeds one half. Threads that
    // submit requests call it, so that engines rarely have to make one. Throws Refused as counts_tokens() does.
    void prepare();
    // Replaces the machine of `counting`. Keeps the old one if compiling exceeds its limits of time or memory.
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
    void guess(DraftWriter& out) override;

   private:
    static constexpr int kAnyNumber = -1;

    // Locks the machine. Picks it on the first call.
    std::unique_lock<std::mutex> lock_machine();
    // Switches to the machine of answers with a token limit and replays the tokens so far.
    void begin_counting();
    // A copy of the row, valid until the next call.
    std::span<const std::uint32_t> keep(std::span<const MaskWord> row);

    const std::shared_ptr<Machines> machines_;
    std::shared_ptr<Machine> machine_;  // null before the first call, which picks it
    Automaton::State state_ = Automaton::kDead;
    bool counts_ = false;
    int left_ = kAnyNumber;  // tokens left, from the last mask_within()
    std::vector<TokenId> written_;
    std::vector<MaskWord> row_;
    BlankHabits habits_;  // of the text since the first guess
    bool is_guessed_ = false;
    std::uint8_t last_ = 0;  // the text's last byte
  };

  const std::shared_ptr<const Vocabulary> vocabulary_;
  const std::shared_ptr<Machines> machines_;
};

/// Compiles and caches constraints for one vocabulary. Thread-safe: compiling runs in the caller's thread.
class Constraints {
 public:
  using Pointer = std::shared_ptr<const CompiledConstraint>;  ///< shared by the requests that use it

  /// Error unsupported if a byte that texts need is not a token. One that hardly any needs fails the text that does.
  explicit Constraints(Vocabulary vocabulary, SchemaOptions options = {}, ConstraintLimits limits = {});

  /// The constraint of compile.h with the same name, from the cache if the same text was used before. Errors: those of
  /// compile.h.
  Pointer json_schema(std::string_view text);
  template <std::same_as<OrderedJson> J>
  Pointer json_schema(const J& schema) {
    return of_schema(schema);
  }
  Pointer regex(std::string_view pattern);
  /// Exactly one of the texts, in any order. Error invalid_request if the list is empty.
  Pointer choice(std::span<const std::string> texts);
  Pointer grammar(std::string_view text);
  Pointer calls(const CallsForm& form);  ///< of calls.h

 private:
  Pointer of_schema(const OrderedJson& schema);

  static constexpr std::size_t kMost = 64;                           // cached constraints
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
