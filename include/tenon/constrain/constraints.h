// Constraints for the requests of one vocabulary: compiled once each, and shared by all who ask for the same.
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/constrain/compile.h"
#include "tenon/constrain/token_mask.h"
#include "tenon/core/constraint.h"

namespace tenon::constrain {

// An automaton with the masks of a vocabulary, as a Request takes it. Requests of several engines may share it. States are
// made while texts are written; when they have come to kMostBytes, answers that begin from then on share new ones.
class CompiledConstraint final : public Constraint {
 public:
  using Compile = std::function<std::unique_ptr<Automaton>()>;
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;

  // Compiles at once, and throws what that throws.
  CompiledConstraint(Compile compile, std::shared_ptr<const Vocabulary> vocabulary)
      : vocabulary_(std::move(vocabulary)), compile_(std::move(compile)), machine_(std::make_shared<Machine>(compile_(), vocabulary_)) {}

  std::unique_ptr<ConstraintState> start() const override {
    std::lock_guard lock(mutex_);
    if (machine_->bytes() > kMostBytes) machine_ = std::make_shared<Machine>(compile_(), vocabulary_);
    return std::make_unique<InAnswer>(machine_);
  }
  int vocab() const override { return vocabulary_->width(); }
  bool counts_tokens() const override { return true; }
  std::vector<std::string> warnings() const {
    std::lock_guard lock(mutex_);
    return machine_->automaton->grammar().warnings;
  }
  // Of expressions and states.
  std::size_t bytes() const {
    std::lock_guard lock(mutex_);
    return machine_->bytes();
  }

 private:
  struct Machine {
    Machine(std::unique_ptr<Automaton> made, std::shared_ptr<const Vocabulary> of)
        : vocabulary(std::move(of)), automaton(std::move(made)), masks(*automaton, *vocabulary) {}

    std::size_t bytes() {
      std::lock_guard lock(mutex);
      return automaton->grammar().budget.bytes();
    }

    const std::shared_ptr<const Vocabulary> vocabulary;
    std::mutex mutex;
    const std::unique_ptr<Automaton> automaton;
    TokenMasks masks;
  };

  class InAnswer final : public ConstraintState {
   public:
    explicit InAnswer(std::shared_ptr<Machine> machine) : machine_(std::move(machine)), state_(machine_->automaton->start()) {}

    std::span<const std::uint32_t> mask() override {
      std::lock_guard lock(machine_->mutex);
      left_ = kAnyNumber;
      return kept(machine_->masks.mask(state_));
    }
    std::span<const std::uint32_t> mask_within(int tokens) override {
      std::lock_guard lock(machine_->mutex);
      left_ = std::max(tokens, 0);
      return kept(machine_->masks.mask_within(state_, left_));
    }
    void advance(TokenId token) override {
      std::lock_guard lock(machine_->mutex);
      state_ = machine_->masks.advance(state_, token);
      if (left_ > 0) --left_;
      if (state_ == Automaton::kDead) throw Error(Error::Kind::internal, "constraint", "a token came that its mask forbids");
    }
    bool must_end() override {
      std::lock_guard lock(machine_->mutex);
      return left_ == kAnyNumber ? machine_->masks.must_end(state_) : machine_->masks.must_end(state_, left_);
    }

   private:
    static constexpr int kAnyNumber = -1;

    std::span<const std::uint32_t> kept(std::span<const MaskWord> row) {
      row_.assign(row.begin(), row.end());  // the next answer's comes in its place
      return row_;
    }

    const std::shared_ptr<Machine> machine_;
    Automaton::State state_;
    int left_ = kAnyNumber;  // tokens, as mask_within() last said
    std::vector<MaskWord> row_;
  };

  const std::shared_ptr<const Vocabulary> vocabulary_;
  const Compile compile_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<Machine> machine_;
};

// Safe from any number of threads: compiling is done in the caller's.
class Constraints {
 public:
  using Pointer = std::shared_ptr<const CompiledConstraint>;

  // Errors: unsupported where some byte is no token, for then a constraint could run into a dead end.
  explicit Constraints(Vocabulary vocabulary, SchemaOptions options = {}, Limits limits = {})
      : vocabulary_(std::make_shared<const Vocabulary>(std::move(vocabulary))), options_(options), limits_(limits) {
    if (!vocabulary_->has_all_bytes()) {
      throw Error(Error::Kind::unsupported, "vocabulary", "lacks tokens for single bytes; constraints need all of them");
    }
  }

  // Errors: as those of compile.h, and invalid_request where the text is no JSON.
  Pointer json_schema(std::string_view text) { return json_schema(parse_schema(text)); }
  template <std::same_as<OrderedJson> J>
  Pointer json_schema(const J& schema) {
    return known_or("schema " + schema.dump(), [schema = OrderedJson(schema), options = options_, limits = limits_] {
      return constrain::json_schema(schema, options, limits);
    });
  }
  Pointer regex(std::string_view pattern) {
    return known_or("regex " + std::string(pattern), [pattern = std::string(pattern), limits = limits_] {
      return constrain::regex(pattern, limits);
    });
  }
  Pointer grammar(std::string_view text) {
    return known_or("grammar " + std::string(text), [text = std::string(text), limits = limits_] {
      return constrain::grammar(text, limits);
    });
  }

 private:
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kMostBytes = std::size_t{256} << 20;  // of all that are kept

  struct Known {
    std::string name;
    Pointer constraint;
  };

  Pointer known_or(const std::string& name, CompiledConstraint::Compile compile) {
    if (Pointer found = known(name)) return found;
    Pointer made = std::make_shared<const CompiledConstraint>(std::move(compile), vocabulary_);
    if (Pointer found = known(name)) return found;  // somebody else was sooner: all share one
    std::lock_guard lock(mutex_);
    known_.push_front({name, made});
    std::size_t bytes = 0, kept = 0;
    for (const Known& each : known_) kept += (bytes += each.constraint->bytes()) <= kMostBytes;
    known_.resize(std::clamp<std::size_t>(kept, 1, kMost));
    return made;
  }
  Pointer known(const std::string& name) {
    std::lock_guard lock(mutex_);
    const auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return k.name == name; });
    if (found == known_.end()) return nullptr;
    known_.splice(known_.begin(), known_, found);
    return known_.front().constraint;
  }

  const std::shared_ptr<const Vocabulary> vocabulary_;
  const SchemaOptions options_;
  const Limits limits_;
  std::mutex mutex_;
  std::list<Known> known_;  // used last in front
};

}  // namespace tenon::constrain
