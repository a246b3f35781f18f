#pragma once
#include <algorithm>

#include "tenon/constrain/constraints.h"
#include "tenon/core/require.h"
#include "tenon/io/json.h"

namespace tenon::constrain {
namespace detail {

// Whether these bytes are tokens: newline, printable ASCII, and those of UTF-8 up to U+3FFFF, beyond which no character
// is assigned before U+E0000. SmolLM2's vocabulary lacks some of the others.
inline bool has_bytes_of_text(const Vocabulary& vocabulary) {
  ByteSet missing =
      ByteSet::range(0x20, 0x7E) | ByteSet::range(0x80, 0xBF) | ByteSet::range(0xC2, 0xF0) | ByteSet::of('\n');
  for (TokenId id = 0; id < vocabulary.width(); ++id) {
    const std::string_view bytes = vocabulary.bytes(id);
    if (bytes.size() == 1) missing = missing & ~ByteSet::of(static_cast<unsigned char>(bytes.front()));
  }
  return missing.empty();
}

}  // namespace detail

TENON_INLINE bool CompiledConstraint::counts_tokens() const {
  machines_->prepare();
  return true;
}

TENON_INLINE std::shared_ptr<CompiledConstraint::Machine> CompiledConstraint::Current::get() const {
  std::lock_guard lock(mutex_);
  return machine_;
}

TENON_INLINE void CompiledConstraint::Current::put(std::shared_ptr<Machine> machine) {
  std::lock_guard lock(mutex_);
  made_ = machine->budget().bytes();
  machine_ = std::move(machine);
}

TENON_INLINE double CompiledConstraint::Current::growth() const {
  std::lock_guard lock(mutex_);
  if (!machine_) return 0;
  std::lock_guard its(machine_->mutex);
  const Budget& budget = machine_->budget();
  const std::size_t most = std::min(kMostBytes, (budget.limits().bytes - made_) / 2);
  const std::size_t now = std::max(budget.bytes(), made_);
  return static_cast<double>(now - made_) / static_cast<double>(std::max<std::size_t>(most, 1));
}

TENON_INLINE std::size_t CompiledConstraint::Current::bytes() const {
  std::lock_guard lock(mutex_);
  if (!machine_) return 0;
  std::lock_guard its(machine_->mutex);
  return machine_->budget().bytes() + machine_->masks.bytes();
}

TENON_INLINE CompiledConstraint::Machines::Machines(Compile how, std::shared_ptr<const Vocabulary> of)
    : vocabulary(std::move(of)), compile(std::move(how)) {
  plain.put(make());
  warnings = plain.get()->automaton->grammar().warnings;
}

TENON_INLINE std::shared_ptr<CompiledConstraint::Machine> CompiledConstraint::Machines::for_plain() {
  std::lock_guard lock(renewing);
  if (plain.growth() > 1) plain.put(make());
  return plain.get();
}

TENON_INLINE std::shared_ptr<CompiledConstraint::Machine> CompiledConstraint::Machines::for_counting() {
  if (!counting.get()) {
    prepare();
  } else if (counting.growth() > 1) {
    if (std::unique_lock lock(preparing, std::try_to_lock); lock) renew_counting();
  }
  return counting.get();
}

TENON_INLINE void CompiledConstraint::Machines::prepare() {
  std::lock_guard lock(preparing);
  if (refused) throw *refused;
  if (counting.get()) {
    if (counting.growth() > 0.5) renew_counting();
    return;
  }
  auto machine = make();
  try {
    machine->automaton->prepare_distances();
  } catch (const Refused& refusal) {
    refused = refusal;
    throw;
  }
  counting.put(std::move(machine));
}

TENON_INLINE void CompiledConstraint::Machines::renew_counting() {
  try {
    auto machine = make();
    machine->automaton->prepare_distances();
    counting.put(std::move(machine));
  } catch (const Refused&) {  // it took longer than the first time: the old machine stays in use
  }
}

TENON_INLINE std::span<const std::uint32_t> CompiledConstraint::AnswerState::mask() {
  const auto lock = lock_machine();
  left_ = kAnyNumber;
  return keep(machine_->masks.mask(state_));
}

TENON_INLINE std::span<const std::uint32_t> CompiledConstraint::AnswerState::mask_within(int tokens) {
  if (!counts_) begin_counting();
  const auto lock = lock_machine();
  left_ = std::max(tokens, 0);
  return keep(machine_->masks.mask_within(state_, left_));
}

TENON_INLINE void CompiledConstraint::AnswerState::advance(TokenId token) {
  const auto lock = lock_machine();
  state_ =
      is_guessed_ ? machine_->masks.advance(state_, token, habits_, last_) : machine_->masks.advance(state_, token);
  if (left_ > 0) --left_;
  if (state_ == Automaton::kDead)
    throw Error(Error::Kind::internal, "constraint", "received a token that its mask forbids");
  if (!counts_) written_.push_back(token);
}

TENON_INLINE bool CompiledConstraint::AnswerState::must_end() {
  const auto lock = lock_machine();
  return left_ == kAnyNumber ? machine_->masks.must_end(state_) : machine_->masks.must_end(state_, left_);
}

TENON_INLINE void CompiledConstraint::AnswerState::guess(DraftWriter& out) {
  const auto lock = lock_machine();
  is_guessed_ = true;
  machine_->masks.guess(state_, habits_, last_, out);
}

TENON_INLINE std::unique_lock<std::mutex> CompiledConstraint::AnswerState::lock_machine() {
  if (!machine_) machine_ = machines_->for_plain(), state_ = machine_->automaton->start();
  return std::unique_lock(machine_->mutex);
}

TENON_INLINE void CompiledConstraint::AnswerState::begin_counting() {
  machine_ = machines_->for_counting();
  std::lock_guard lock(machine_->mutex);
  state_ = machine_->automaton->start();
  for (const TokenId token : std::exchange(written_, {})) state_ = machine_->masks.advance(state_, token);
  counts_ = true;
}

TENON_INLINE std::span<const std::uint32_t> CompiledConstraint::AnswerState::keep(std::span<const MaskWord> row) {
  row_.assign(row.begin(), row.end());  // a copy, because the next mask of another answer overwrites the row
  return row_;
}

TENON_INLINE Constraints::Constraints(Vocabulary vocabulary, SchemaOptions options, ConstraintLimits limits)
    : vocabulary_(std::make_shared<const Vocabulary>(std::move(vocabulary))), options_(options), limits_(limits) {
  if (!detail::has_bytes_of_text(*vocabulary_))
    throw Error(Error::Kind::unsupported, "vocabulary", "lacks tokens for single bytes that constrained texts need");
}

TENON_INLINE Constraints::Pointer Constraints::json_schema(std::string_view text) {
  return of_schema(parse_schema(text));
}

TENON_INLINE Constraints::Pointer Constraints::of_schema(const OrderedJson& schema) {
  return find_or_make("schema " + schema.dump(), [schema = OrderedJson(schema), options = options_, limits = limits_] {
    return constrain::json_schema(schema, options, limits);
  });
}

TENON_INLINE Constraints::Pointer Constraints::regex(std::string_view pattern) {
  return find_or_make("regex " + std::string(pattern),
                      [pattern = std::string(pattern), limits = limits_] { return constrain::regex(pattern, limits); });
}

TENON_INLINE Constraints::Pointer Constraints::choice(std::span<const std::string> texts) {
  std::vector<std::string> sorted(texts.begin(), texts.end());
  std::sort(sorted.begin(), sorted.end());
  std::string name = "choice";
  for (const std::string& text : sorted) name += ' ' + std::to_string(text.size()) + ' ' + text;
  return find_or_make(name,
                      [sorted = std::move(sorted), limits = limits_] { return constrain::choice(sorted, limits); });
}

TENON_INLINE Constraints::Pointer Constraints::grammar(std::string_view text) {
  return find_or_make("grammar " + std::string(text),
                      [text = std::string(text), limits = limits_] { return constrain::grammar(text, limits); });
}

TENON_INLINE Constraints::Pointer Constraints::calls(const CallsForm& form) {
  return find_or_make("calls " + name_of(form),
                      [form, options = options_, limits = limits_] { return constrain::calls(form, options, limits); });
}

TENON_INLINE Constraints::Pointer Constraints::find_or_make(const std::string& name,
                                                            CompiledConstraint::Compile compile) {
  if (Pointer found = known(name)) return found;
  Pointer made = std::make_shared<const CompiledConstraint>(std::move(compile), vocabulary_);
  if (Pointer found = known(name)) return found;  // another thread was faster: both use its constraint
  std::lock_guard lock(mutex_);
  known_.push_front({name, made});
  std::size_t bytes = 0, kept = 0;
  for (const Known& each : known_) kept += (bytes += each.constraint->bytes()) <= kMostBytes;
  known_.resize(std::clamp<std::size_t>(kept, 1, kMost));
  return made;
}

TENON_INLINE Constraints::Pointer Constraints::known(const std::string& name) {
  std::lock_guard lock(mutex_);
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return k.name == name; });
  if (found == known_.end()) return nullptr;
  known_.splice(known_.begin(), known_, found);
  return known_.front().constraint;
}

}  // namespace tenon::constrain
