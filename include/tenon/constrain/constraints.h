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
  bool counts_tokens() const override {
    machines_->prepare();
    return true;
  }
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
    std::shared_ptr<Machine> get() const {
      std::lock_guard lock(mutex_);
      return machine_;
    }
    void put(std::shared_ptr<Machine> machine) {
      std::lock_guard lock(mutex_);
      made_ = machine->budget().bytes();
      machine_ = std::move(machine);
    }
    // Bytes of states since, in parts of what may come before others take over: well before the limit.
    double grown() const {
      std::lock_guard lock(mutex_);
      if (!machine_) return 0;
      std::lock_guard its(machine_->mutex);
      const Budget& budget = machine_->budget();
      const std::size_t most = std::min(kMostBytes, (budget.limits().bytes - made_) / 2);
      const std::size_t now = std::max(budget.bytes(), made_);
      return static_cast<double>(now - made_) / static_cast<double>(std::max<std::size_t>(most, 1));
    }
    std::size_t bytes() const {
      std::lock_guard lock(mutex_);
      if (!machine_) return 0;
      std::lock_guard its(machine_->mutex);
      return machine_->budget().bytes() + machine_->masks.bytes();
    }

   private:
    mutable std::mutex mutex_;
    std::shared_ptr<Machine> machine_;
    std::size_t made_ = 0;  // its bytes then
  };

  // What a constraint and its answers share.
  struct Machines {
    Machines(Compile how, std::shared_ptr<const Vocabulary> of) : vocabulary(std::move(of)), compile(std::move(how)) {
      plain.put(made());
      warnings = plain.get()->automaton->grammar().warnings;
    }

    std::shared_ptr<Machine> made() const { return std::make_shared<Machine>(compile(), vocabulary); }

    std::shared_ptr<Machine> for_plain() {
      std::lock_guard lock(renewing);
      if (plain.grown() > 1) plain.put(made());
      return plain.get();
    }
    // In the thread of an engine, which waits for nobody who makes another.
    std::shared_ptr<Machine> for_counting() {
      if (!counting.get()) {
        prepare();
      } else if (counting.grown() > 1) {
        if (std::unique_lock lock(preparing, std::try_to_lock); lock) renew_counting();
      }
      return counting.get();
    }
    // In that of who sends a request: it is renewed here when half has come, so that engines seldom need to.
    void prepare() {
      std::lock_guard lock(preparing);
      if (refused) throw *refused;
      if (counting.get()) {
        if (counting.grown() > 0.5) renew_counting();
        return;
      }
      auto machine = made();
      try {
        machine->automaton->prepare_distances();
      } catch (const Refused& refusal) {
        refused = refusal;
        throw;
      }
      counting.put(std::move(machine));
    }
    void renew_counting() {
      try {
        auto machine = made();
        machine->automaton->prepare_distances();
        counting.put(std::move(machine));
      } catch (const Refused&) {  // it took longer than the last time, then: that one serves on
      }
    }
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

    std::span<const std::uint32_t> mask() override {
      const auto lock = begin();
      left_ = kAnyNumber;
      return kept(machine_->masks.mask(state_));
    }
    std::span<const std::uint32_t> mask_within(int tokens) override {
      if (!counts_) count();
      const auto lock = begin();
      left_ = std::max(tokens, 0);
      return kept(machine_->masks.mask_within(state_, left_));
    }
    void advance(TokenId token) override {
      const auto lock = begin();
      state_ = machine_->masks.advance(state_, token);
      if (left_ > 0) --left_;
      if (state_ == Automaton::kDead)
        throw Error(Error::Kind::internal, "constraint", "a token came that its mask forbids");
      if (!counts_) written_.push_back(token);
    }
    bool must_end() override {
      const auto lock = begin();
      return left_ == kAnyNumber ? machine_->masks.must_end(state_) : machine_->masks.must_end(state_, left_);
    }

   private:
    static constexpr int kAnyNumber = -1;

    std::unique_lock<std::mutex> begin() {
      if (!machine_) machine_ = machines_->for_plain(), state_ = machine_->automaton->start();
      return std::unique_lock(machine_->mutex);
    }
    // With the automaton of those that count, though it was begun with another.
    void count() {
      machine_ = machines_->for_counting();
      std::lock_guard lock(machine_->mutex);
      state_ = machine_->automaton->start();
      for (const TokenId token : std::exchange(written_, {})) state_ = machine_->masks.advance(state_, token);
      counts_ = true;
    }
    std::span<const std::uint32_t> kept(std::span<const MaskWord> row) {
      row_.assign(row.begin(), row.end());  // the next answer's comes in its place
      return row_;
    }

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
  explicit Constraints(Vocabulary vocabulary, SchemaOptions options = {}, Limits limits = {})
      : vocabulary_(std::make_shared<const Vocabulary>(std::move(vocabulary))), options_(options), limits_(limits) {
    if (!vocabulary_->has_all_bytes()) {
      throw Error(Error::Kind::unsupported, "vocabulary",
                  "lacks tokens for single bytes; constraints need all of them");
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
    return known_or("regex " + std::string(pattern),
                    [pattern = std::string(pattern), limits = limits_] { return constrain::regex(pattern, limits); });
  }
  // Exactly one of the texts, whose order does not matter. Errors: invalid_request where the list is empty.
  Pointer choice(std::span<const std::string> texts) {
    std::vector<std::string> sorted(texts.begin(), texts.end());
    std::sort(sorted.begin(), sorted.end());
    std::string name = "choice";
    for (const std::string& text : sorted) name += ' ' + std::to_string(text.size()) + ' ' + text;
    return known_or(name, [sorted = std::move(sorted), limits = limits_] { return constrain::choice(sorted, limits); });
  }
  Pointer grammar(std::string_view text) {
    return known_or("grammar " + std::string(text),
                    [text = std::string(text), limits = limits_] { return constrain::grammar(text, limits); });
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
