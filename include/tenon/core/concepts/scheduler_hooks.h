// Hooks of a scheduler under a known name with another type than the engine calls: they would be ignored.
#pragma once
#include <type_traits>

#include "tenon/core/concepts.h"

namespace tenon::detail {

/// The type of a function or of a member function.
template <class F>
concept IsFunction = std::is_member_function_pointer_v<F> || std::is_function_v<std::remove_pointer_t<F>>;

/// A scheduler whose `victim` and `served`, if it has functions of these names, are those that the queue calls. Names
/// that are overloaded, private or of data are not looked at.
template <class P>
concept SchedulerHooksFit = (ChoosesVictim<P> || !requires { requires IsFunction<decltype(&P::victim)>; }) &&
                            (KeepsAccounts<P> || !requires { requires IsFunction<decltype(&P::served)>; });

/// For wrappers of a scheduler: static_assert(sizeof(CheckedHooks<P>) > 0) is an error where hooks of P would be
/// ignored.
template <class P>
struct CheckedHooks {
  static_assert(
      SchedulerHooksFit<P>,
      "tenon: the scheduler has a victim or served of another type than the queue calls: "
      "SeqId victim(const QueueState&), void served(std::span<const Served>); see docs/policies.md#scheduler");
};

}  // namespace tenon::detail
