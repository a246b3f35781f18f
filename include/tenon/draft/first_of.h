// Several draft policies as one.
#pragma once
#include <tuple>
#include <utility>

#include "tenon/core/concepts.h"

namespace tenon {

/// Asks its policies in turn, until one guesses something.
template <DraftPolicy... P>
class FirstOf {
 public:
  FirstOf() = default;
  explicit FirstOf(P... policies) requires(sizeof...(P) > 0) : policies_(std::move(policies)...) {}

  void draft(const DraftState& state, DraftWriter& out) {
    const int room = out.room();
    const auto guesses = [&](auto& policy) {
      policy.draft(state, out);
      return out.room() < room;
    };
    std::apply([&](auto&... policy) { (void)(guesses(policy) || ...); }, policies_);
  }

  /// Every policy that learns texts learns this one.
  void learn(const DraftState& state) requires(LearnsTexts<P> || ...) {
    const auto show = [&]<class Policy>(Policy& policy) {
      if constexpr (LearnsTexts<Policy>) policy.learn(state);
    };
    std::apply([&](auto&... policy) { (show(policy), ...); }, policies_);
  }

  /// The policy of this type.
  template <class Policy>
  Policy& get() {
    return std::get<Policy>(policies_);
  }

 private:
  std::tuple<P...> policies_;
};
static_assert(DraftPolicy<FirstOf<>>);

}  // namespace tenon
