// Constraints for the requests of one vocabulary: compiled once each, and shared by all who ask for the same.
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

// An automaton with the masks of a vocabulary, as a Request takes it. Requests of several engines may share it. States
// are made while texts are written; when kMostBytes of them have come, answers that begin from then on share new ones.
// Answers that must end within so many tokens have an automaton to themselves, so that what that costs is not taken
// from the others.
class CompiledConstraint final : public Constraint {
 public:
  using Compile = std::function<std::unique_ptr<Automaton>()>;
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;

  // Compiles at once, and throws what that throws.
  CompiledConstraint(Compile compile, std::shared_ptr<const Vocabulary> vocabulary)
      : vocabulary_(std::move(vocabulary)), machines_(std::make_shared<Machines>(std::move(compile), vocabulary_)) {}

  std::unique_ptr<ConstraintState> start() const override { return std::make_unique<InAnswer>(machines_); }
  int vocab() const override { return vocabulary_->width(); }
  // Prepares it, in the caller's thread, where nobody has asked before. Refused, unsupported, if that costs too much:
  // always from then on.
  bool counts_tokens() const override;
  std::vector<std::string> warnings() const { return machines_->warnings; }
  // Of expressions, states and rows.
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

  // The machine that answers begin with. It may be made without being put in place.
  class Current {
   public:
    std::shared_ptr<Machine> get() const;
    void put(std::shared_ptr<Machine> machine);
    // Bytes of states since, in parts of what may come before others take over: well before the limit.
    double grown() const;
    std::size_t bytes() const;

   private:
    mutable std::mutex mutex_;
    std::shared_ptr<Machine> machine_;
    std::size_t made_ = 0;  // its bytes then
  };

  // What a constraint and its answers share.
  struct Machines {
    Machines(Compile how, std::shared_ptr<const Vocabulary> of);

    std::shared_ptr<Machine> made() const { return std::make_shared<Machine>(compile(), vocabulary); }

    std::shared_ptr<Machine> for_plain();
    // In the thread of an engine, which waits for nobody who makes another.
    std::shared_ptr<Machine> for_counting();
    // In that of who sends a request: it is renewed here when half has come, so that engines seldom need to.
    void prepare();
    void renew_counting();
    std::size_t bytes() const { return plain.bytes() + counting.bytes(); }

    const std::shared_ptr<const Vocabulary> vocabulary;
    const Compile compile;
    std::vector<std::string> warnings;
    Current plain, counting;  // counting: none until somebody asks for it
    std::mutex renewing, preparing;
    std::optional<Refused> refused;  // by counting
  };

  class InAnswer final : public ConstraintState {
   public:
    explicit InAnswer(std::shared_ptr<Machines> machines) : machines_(std::move(machines)) {}

    std::span<const std::uint32_t> mask() override;
    std::span<const std::uint32_t> mask_within(int tokens) override;
    void advance(TokenId token) override;
    bool must_end() override;

   private:
    static constexpr int kAnyNumber = -1;

    std::unique_lock<std::mutex> begin();
    // With the automaton of those that count, though it was begun with another.
    void count();
    std::span<const std::uint32_t> kept(std::span<const MaskWord> row);

    const std::shared_ptr<Machines> machines_;
    std::shared_ptr<Machine> machine_;  // none before the first call: that says which
    Automaton::State state_ = Automaton::kDead;
    bool counts_ = false;
    int left_ = kAnyNumber;  // tokens, as mask_within() last said
    std::vector<TokenId> written_;
    std::vector<MaskWord> row_;
  };

  const std::shared_ptr<const Vocabulary> vocabulary_;
  const std::shared_ptr<Machines> machines_;
};

// Safe from any number of threads: compiling is done in the caller's.
class Constraints {
 public:
  using Pointer = std::shared_ptr<const CompiledConstraint>;

  // Errors: unsupported where some byte is no token, for then a constraint could run into a dead end.
  explicit Constraints(Vocabulary vocabulary, SchemaOptions options = {}, ConstraintLimits limits = {});

  // Errors: as those of compile.h, and invalid_request where the text is no JSON.
  Pointer json_schema(std::string_view text);
  template <std::same_as<OrderedJson> J>
  Pointer json_schema(const J& schema) {
    return of_schema(schema);
  }
  Pointer regex(std::string_view pattern);
  // Exactly one of the texts, whose order does not matter. Errors: invalid_request where the list is empty.
  Pointer choice(std::span<const std::string> texts);
  Pointer grammar(std::string_view text);

 private:
  Pointer of_schema(const OrderedJson& schema);

  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kMostBytes = std::size_t{256} << 20;  // of all that are kept

  struct Known {
    std::string name;
    Pointer constraint;
  };

  Pointer known_or(const std::string& name, CompiledConstraint::Compile compile);
  Pointer known(const std::string& name);

  const std::shared_ptr<const Vocabulary> vocabulary_;
  const SchemaOptions options_;
  const ConstraintLimits limits_;
  std::mutex mutex_;
  std::list<Known> known_;  // used last in front
};

}  // namespace tenon::constrain

#ifndef TENON_COMPILED
#include "tenon/constrain/constraints-inl.h"
#endif
