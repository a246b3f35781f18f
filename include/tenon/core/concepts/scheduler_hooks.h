// Finds hooks of a scheduler that have a known name and another type than the queue calls. They would be ignored.
#pragma once
#include <type_traits>

#include "tenon/core/concepts.h"

namespace tenon::detail {

/// The type of a function or of a member function.
template <class F>
concept IsFunction = std::is_member_function_pointer_v<F> || std::is_function_v<std::remove_pointer_t<F>>;

/// A scheduler whose `victim` and `served`, if it has functions of these names, have the types that the queue calls.
/// Overloaded and private members and data members are not checked.
template <class P>
concept SchedulerHooksFit = (ChoosesVictim<P> || !requires { requires IsFunction<decltype(&P::victim)>; }) &&
                            (KeepsAccounts<P> || !requires { requires IsFunction<decltype(&P::served)>; });

/// For wrappers of a scheduler: static_assert(sizeof(CheckedHooks<P>) > 0) is an error if hooks of P would be ignored.
/// A P that is no scheduler is no error here, because its wrapper says so.
template <class P>
struct CheckedHooks {
  static_assert(
      !SchedulerPolicy<P> || SchedulerHooksFit<P>,
      "tenon: the scheduler has a victim or served of another type than the queue calls: "
      "SeqId victim(const QueueState&), void served(std::span<const Served>); see docs/policies.md#scheduler");
};

}  // namespace tenon::detail
