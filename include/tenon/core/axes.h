/// The axes of an engine: wrappers that may be given in any order, each at most once, with defaults for the others. A
/// wrapper takes any class and says in one line what is missing. core/concepts.h has the contracts.
#pragma once
#include <type_traits>

#include "tenon/core/concepts.h"
#include "tenon/core/concepts/scheduler_hooks.h"

namespace tenon {

/// Which sequences run in a step: ContinuousPolicy by default.
template <class P>
struct Scheduler {
  static_assert(SchedulerPolicy<P>,
                "tenon: Scheduler<P> got a type that is no scheduler; it needs to be copyable and to have "
                "void plan(const QueueState&, PlanWriter&); see docs/policies.md#scheduler");
  static_assert(sizeof(detail::CheckedHooks<P>) > 0);
};

/// Where keys and values live: PagedKV by default.
template <class P>
struct Cache {
  static_assert(
      CachePolicy<P>,
      "tenon: Cache<P> got a type that is no cache; it needs P::Ledger {free_tokens, capacity_tokens, grow, "
      "release}, a trivially copyable P::View {tile, Element: float, bfloat16, float16, std::int8_t or your own "
      "with encode and decode and a default constructor}, and static keeps_tokens, ledger, bytes, table_entries, view, "
      "and block_layout if the ledger forks; see docs/policies.md#cache");
};

/// How matrices are stored: Float32 by default.
template <class P>
struct Weights {
  static_assert(WeightPolicy<P>,
                "tenon: Weights<P> got a type that is no weight format; it needs static bytes, encode and view, and a "
                "trivially copyable P::View with float at(int row, int col); see docs/policies.md#weights");
};

/// How the embedding and the output head are stored: as Weights by default.
template <class P>
struct Head {
  static_assert(WeightPolicy<P>,
                "tenon: Head<P> got a type that is no weight format; it needs static bytes, encode and view, and a "
                "trivially copyable P::View with float at(int row, int col); see docs/policies.md#weights");
};

/// How low-rank updates are added: SegmentedLoRA by default.
template <class P>
struct Adapter {
  static_assert(
      AdapterPolicy<P>,
      "tenon: Adapter<P> got a type that is no adapter policy; it must be copyable and default constructible and "
      "have static bool adds_at_runtime and void arrange(std::span<const AdapterSet* const>, AdapterGroups&) const; "
      "see docs/policies.md#adapter");
};

/// Which tokens are guessed and verified together: SuffixDraft by default.
template <class P>
struct Draft {
  static_assert(
      DraftPolicy<P>,
      "tenon: Draft<P> got a type that is no draft policy; it must be copyable and default constructible and have "
      "void draft(const DraftState&, DraftWriter&); see docs/policies.md#draft");
};

/// How attention is computed: FlashAttention by default.
template <class P>
struct Attention {
  static_assert(AttentionPolicy<P>,
                "tenon: Attention<P> got a type that is no attention policy; it needs static bool materialises_scores "
                "and to be trivially copyable, an array values() where it has members, and no member named score, "
                "scores or mask but const hooks with exactly these types: float score(int, int, int, float), bool "
                "mask(int, int), void scores(int, int, int, std::span<float, 16>); see docs/policies.md#attention");
};

/// Where the engine runs: Cpu by default.
template <class P>
struct Device {
  static_assert(
      DevicePolicy<P>,
      "tenon: Device<P> got a type that is no device; it needs P::name, a P::Memory {data, bytes, contents} that moves "
      "and has a default constructor, allocate, synchronize, fill, begin_step, put, fetch, pool and threads; fill, put "
      "and fetch are templates; see docs/policies.md#device");
};

struct scheduler_axis {};
struct cache_axis {};
struct weights_axis {};
struct head_axis {};
struct adapter_axis {};
struct draft_axis {};
struct attention_axis {};
struct device_axis {};

namespace detail {

// The axis and policy of a wrapper, from its name alone. A wrapper around a type that is no policy does not compile;
// its own message must be the only one.
template <class C>
struct choice {
  static constexpr bool known = false, valid = false;
  using axis = void;
};
template <class Axis, class P, bool kValid>
struct choice_of {
  static constexpr bool known = true, valid = kValid;
  using axis = Axis;
  using policy = P;
};
template <class P>
struct choice<Scheduler<P>> : choice_of<scheduler_axis, P, SchedulerPolicy<P> && SchedulerHooksFit<P>> {};
template <class P>
struct choice<Cache<P>> : choice_of<cache_axis, P, CachePolicy<P>> {};
template <class P>
struct choice<Weights<P>> : choice_of<weights_axis, P, WeightPolicy<P>> {};
template <class P>
struct choice<Head<P>> : choice_of<head_axis, P, WeightPolicy<P>> {};
template <class P>
struct choice<Adapter<P>> : choice_of<adapter_axis, P, AdapterPolicy<P>> {};
template <class P>
struct choice<Draft<P>> : choice_of<draft_axis, P, DraftPolicy<P>> {};
template <class P>
struct choice<Attention<P>> : choice_of<attention_axis, P, AttentionPolicy<P>> {};
template <class P>
struct choice<Device<P>> : choice_of<device_axis, P, DevicePolicy<P>> {};

template <class Axis, class... Cs>
inline constexpr int count = (0 + ... + static_cast<int>(std::is_same_v<typename choice<Cs>::axis, Axis>));

template <class Axis, class Default, class... Cs>
struct pick : choice<Default> {};
template <class Axis, class Default, class C, class... Cs>
struct pick<Axis, Default, C, Cs...>
    : std::conditional_t<choice<C>::valid && std::is_same_v<typename choice<C>::axis, Axis>, choice<C>,
                         pick<Axis, Default, Cs...>> {};

// The policy that Cs... choose on Axis, or the default's. The default also stands in for a chosen type that is no
// policy, so that no error follows the wrapper's own message.
template <class Axis, class Default, class... Cs>
using policy_of = typename pick<Axis, Default, Cs...>::policy;

// Reports a wrong choice of an engine, once.
template <class... Cs>
struct CheckChoices {
  static_assert((choice<Cs>::known && ...),
                "tenon: Engine<Model, ...> got something that is no axis; wrap policies as Scheduler<P>, Cache<P>, "
                "Weights<P>, Head<P>, Adapter<P>, Draft<P>, Attention<P> or Device<P>; see docs/policies.md");
  static_assert(count<scheduler_axis, Cs...> <= 1, "tenon: Engine got two Scheduler<P>; keep one");
  static_assert(count<cache_axis, Cs...> <= 1, "tenon: Engine got two Cache<P>; keep one");
  static_assert(count<weights_axis, Cs...> <= 1, "tenon: Engine got two Weights<P>; keep one");
  static_assert(count<head_axis, Cs...> <= 1, "tenon: Engine got two Head<P>; keep one");
  static_assert(count<adapter_axis, Cs...> <= 1, "tenon: Engine got two Adapter<P>; keep one");
  static_assert(count<draft_axis, Cs...> <= 1, "tenon: Engine got two Draft<P>; keep one");
  static_assert(count<attention_axis, Cs...> <= 1, "tenon: Engine got two Attention<P>; keep one");
  static_assert(count<device_axis, Cs...> <= 1, "tenon: Engine got two Device<P>; keep one");
};

}  // namespace detail
}  // namespace tenon
