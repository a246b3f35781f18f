// Constraints for the requests of one vocabulary: compiled once each, and shared by all who ask for the same.
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/constrain/compile.h"
#include "tenon/constrain/token_mask.h"
#include "tenon/core/constraint.h"

namespace tenon::constrain {

// An automaton with the masks of a vocabulary, as a Request takes it. Requests of several engines may share it.
class CompiledConstraint final : public Constraint, public std::enable_shared_from_this<CompiledConstraint> {
 public:
  CompiledConstraint(std::unique_ptr<Automaton> automaton, std::shared_ptr<const Vocabulary> vocabulary)
      : vocabulary_(std::move(vocabulary)), automaton_(std::move(automaton)), masks_(*automaton_, *vocabulary_) {}

  std::unique_ptr<ConstraintState> start() const override {
    return std::make_unique<InAnswer>(std::const_pointer_cast<CompiledConstraint>(shared_from_this()));
  }
  int vocab() const override { return vocabulary_->width(); }
  const std::vector<std::string>& warnings() const { return automaton_->grammar().warnings; }
  // Of expressions and states; it grows while texts are written.
  std::size_t bytes() const {
    std::lock_guard lock(mutex_);
    return automaton_->grammar().budget.bytes();
  }

 private:
  class InAnswer final : public ConstraintState {
   public:
    explicit InAnswer(std::shared_ptr<CompiledConstraint> of) : of_(std::move(of)), state_(of_->automaton_->start()) {}

    std::span<const std::uint32_t> mask() override {
      std::lock_guard lock(of_->mutex_);
      const auto row = of_->masks_.mask(state_);
      row_.assign(row.begin(), row.end());  // the next answer's comes in its place
      return row_;
    }
    void advance(TokenId token) override {
      std::lock_guard lock(of_->mutex_);
      state_ = of_->masks_.advance(state_, token);
      if (state_ == Automaton::kDead) throw Error(Error::Kind::internal, "constraint", "a token came that its mask forbids");
    }
    bool must_end() override {
      std::lock_guard lock(of_->mutex_);
      return of_->masks_.must_end(state_);
    }

   private:
    const std::shared_ptr<CompiledConstraint> of_;
    Automaton::State state_;
    std::vector<MaskWord> row_;
  };

  const std::shared_ptr<const Vocabulary> vocabulary_;
  mutable std::mutex mutex_;
  const std::unique_ptr<Automaton> automaton_;
  TokenMasks masks_;
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
    return known_or("schema " + schema.dump(), [&] { return constrain::json_schema(schema, options_, limits_); });
  }
  Pointer regex(std::string_view pattern) {
    return known_or("regex " + std::string(pattern), [&] { return constrain::regex(pattern, limits_); });
  }
  Pointer grammar(std::string_view text) {
    return known_or("grammar " + std::string(text), [&] { return constrain::grammar(text, limits_); });
  }

 private:
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;  // of one that is kept: a new one begins small again

  struct Known {
    std::string name;
    Pointer constraint;
  };

  template <class Compile>
  Pointer known_or(std::string name, Compile&& compile) {
    {
      std::lock_guard lock(mutex_);
      const auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return k.name == name; });
      if (found != known_.end() && found->constraint->bytes() < kMostBytes) {
        known_.splice(known_.begin(), known_, found);
        return known_.front().constraint;
      }
      if (found != known_.end()) known_.erase(found);
    }
    Pointer made = std::make_shared<const CompiledConstraint>(compile(), vocabulary_);
    std::lock_guard lock(mutex_);
    known_.push_front({std::move(name), made});
    if (known_.size() > kMost) known_.pop_back();
    return made;
  }

  const std::shared_ptr<const Vocabulary> vocabulary_;
  const SchemaOptions options_;
  const Limits limits_;
  std::mutex mutex_;
  std::list<Known> known_;  // used last in front
};

}  // namespace tenon::constrain
