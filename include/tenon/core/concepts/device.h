// The contracts of Device<P>. core/concepts.h includes this and has those of all other policies.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tenon/core/views.h"

namespace tenon {

// ---- Device<P>: where an engine runs. The ops that a device needs are RunsTransformer in ops/args.h.

namespace detail {

// Types that no device names, so that only templates take them.
struct AnyValue {
  double value;
  int more;
};
struct AnyWrite {
  void operator()(std::span<std::byte>) const {}
};

// A part of DevicePolicy: `put` and `fetch` take values of the type T.
template <class D, class T>
concept MovesValues = requires(D& device, std::span<const T> few, const T* values, std::size_t count) {
  { device.put(few) } -> std::same_as<const T*>;
  { device.fetch(values, count) } -> std::same_as<const T*>;
};

}  // namespace detail

/// Memory and data movement of a device. `allocate` returns zeroed memory; Memory{} has no bytes. In
/// `fill(memory, write)`, `write` writes the bytes on the host, which are then copied to the device's memory.
/// `begin_step` may return while the previous step runs. It waits for the end of the step before that one, and frees
/// what was `put` for it. `put` makes values of the host readable for kernels of this step, and returns their address.
/// `fetch` makes values of the device readable for the host, and returns their address, valid until the next call.
/// These three are templates: `put` and `fetch` take any trivially copyable type, `fill` any function. `pool` returns
/// the host's threads, `threads` their number.
template <class D>
concept DevicePolicy = requires {
  typename D::Memory;
}
&&std::default_initializable<typename D::Memory>&& std::movable<typename D::Memory>&& detail::MovesValues<D, int>&&
    detail::MovesValues<D, detail::AnyValue>&& requires(D& device, const D& state, std::size_t bytes,
                                                        std::span<std::byte> memory, detail::AnyWrite write,
                                                        const typename D::Memory& allocated) {
  { D::name } -> std::convertible_to<std::string_view>;
  { device.allocate(bytes) } -> std::same_as<typename D::Memory>;
  { allocated.data() } -> std::convertible_to<std::byte*>;  // an address of the device
  { allocated.bytes() } -> std::convertible_to<std::size_t>;
  { allocated.contents(bytes) } -> std::convertible_to<std::span<const std::byte>>;  // the first bytes, on the host
  { device.synchronize() } -> std::same_as<void>;
  device.fill(memory, write);
  { device.begin_step() } -> std::same_as<void>;
  device.pool();
  { state.threads() } -> std::convertible_to<int>;
};

/// Refinement: the device is constructed from its Options, whose `threads` are EngineOptions::threads. Without it, the
/// device is default-constructed.
template <class D>
concept TakesOptions = requires(typename D::Options options) {
  options.threads = 0;
  D(options);
};

/// Refinement: Options has the `index` of a device among several (EngineOptions::device_index).
template <class D>
concept TakesIndex = TakesOptions<D> && requires(typename D::Options options) {
  options.index = 0;
};

/// Refinement: ops may return before they have run. The engine then keeps what a step reads until the step has ended.
template <class D>
concept RunsAsynchronously = requires {
  requires D::runs_asynchronously;
};

/// Refinement: `flush` starts the kernels that were launched so far, even if no thread waits for them.
template <class D>
concept Flushes = requires(D& device) {
  device.flush();
};

/// Refinement: `memory_use` returns the number of allocated bytes. Without it, Engine::device_memory returns 0.
template <class D>
concept CountsMemory = requires(const D& device) {
  device.memory_use();
};

/// Refinement: `architecture` returns a number that identifies the kind of hardware. Formats and attentions on tensor
/// cores need it, because their bits depend on the hardware. It is then part of an engine's fingerprint.
template <class D>
concept NamesArchitecture = requires(const D& device) {
  { device.architecture() } -> std::convertible_to<std::uint64_t>;
};

/// Refinement: `begin_step` takes the number of rows of the step minus its number of sequences.
template <class D>
concept CountsPromptRows = requires(D& device, int rows) {
  device.begin_step(rows);
};

/// Refinement: the device's ops process rows in tiles. A tile of AdapterGroups::tiles has at most `rows_together` rows
/// of one adapter. A tile of BatchView::tiles has rows of one sequence, with at most `rows_together` queries. A row has
/// one query for each head that shares its keys.
template <class D>
concept TilesRows = requires {
  { D::rows_together } -> std::convertible_to<int>;
};

/// Refinement of a device or an attention: the largest number of queries in a tile of BatchView::tiles, in place of
/// `rows_together`. If both have one, that of the attention counts.
template <class T>
concept TilesQueries = requires {
  { T::queries_together } -> std::convertible_to<int>;
};

/// Refinement of TilesRows: BatchView::longest is rounded up to a multiple of `length_step`, so that the arguments of
/// kernels stay the same while texts grow. Without it, 1.
template <class D>
concept StepsLength = requires {
  { D::length_step } -> std::convertible_to<int>;
};

/// Refinement: `fetch_later` copies values to the host while the device goes on; `Later::wait` returns them. With the
/// op head_pick, steps are then launched before the host knows the tokens of the step before (PicksAhead).
template <class D>
concept FetchesLater = requires(D& device, const TokenId* values, std::size_t count, typename D::Later& later) {
  { device.fetch_later(values, count, later) } -> std::same_as<void>;
  { later.wait() } -> std::same_as<const std::byte*>;
};

/// Refinement of FetchesLater: kernels write for the host themselves, without a copy. `arrivals` returns room for
/// `count` values, `arrive` says that the kernels that write them were launched.
template <class D>
concept WritesArrivals = FetchesLater<D> && requires(D& device, std::size_t count, typename D::Later& later) {
  device.template arrivals<TokenId>(count, later);
  device.arrive(later);
};

struct KvPrefetchHint;  // core/kv_prefetch.h

/// Refinement: forward() says which keys and values are read after the next product, and the device may read them
/// ahead.
template <class D>
concept PrefetchesKv = DevicePolicy<D> && requires(D& device, const KvPrefetchHint& hint) {
  { device.will_read(hint) } -> std::same_as<void>;
};

}  // namespace tenon
