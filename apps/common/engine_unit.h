// For engine_*.cpp only: makes an entry of the menu from policy types.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>

#include "menu.h"
#include "tenon/cache/any_cache.h"
#include "tenon/draft/suffix_draft.h"
#include "tenon/engine/engine.h"
#include "tenon/model/any_family.h"
#include "tenon/weights/bfloat16.h"
#include "tenon/weights/bfloat16_amx.h"
#include "tenon/weights/bfloat16_dot.h"
#include "tenon/weights/bfloat16_mma.h"
#include "tenon/weights/float16.h"
#include "tenon/weights/float16_mma.h"
#include "tenon/weights/float32.h"
#include "tenon/weights/float8.h"
#include "tenon/weights/group_int8.h"
#include "tenon/weights/int4.h"
#include "tenon/weights/int4_act8.h"
#include "tenon/weights/int8.h"
#include "tenon/weights/int8_act8.h"
#include "tenon/weights/int8_exact.h"
#include "tenon/weights/normal_float4.h"

namespace program {

// The command line's word for a policy.
template <class Policy>
inline constexpr std::string_view word = "";
template <>
inline constexpr std::string_view word<tenon::Float32> = "float32";
template <>
inline constexpr std::string_view word<tenon::BFloat16> = "bfloat16";
template <>
inline constexpr std::string_view word<tenon::BFloat16Dot> = "bfloat16_dot";
template <>
inline constexpr std::string_view word<tenon::BFloat16Amx> = "bfloat16_amx";
template <>
inline constexpr std::string_view word<tenon::BFloat16Mma> = "bfloat16_mma";
template <>
inline constexpr std::string_view word<tenon::Float16> = "float16";
template <>
inline constexpr std::string_view word<tenon::Float16Mma> = "float16_mma";
template <>
inline constexpr std::string_view word<tenon::Float8<tenon::E4M3>> = "float8_e4m3";
template <>
inline constexpr std::string_view word<tenon::Float8<tenon::E5M2>> = "float8_e5m2";
template <>
inline constexpr std::string_view word<tenon::ZeroPointInt8> = "int8";
template <>
inline constexpr std::string_view word<tenon::ZeroPointInt8Of<tenon::PerTensor>> = "int8_tensor";
template <>
inline constexpr std::string_view word<tenon::ZeroPointInt8Act8> = "int8_act8";
template <class Base>
inline constexpr std::string_view word<tenon::Int8ExactOf<Base>> = "int8_exact";
template <>
inline constexpr std::string_view word<tenon::GroupInt4> = "int4";
template <>
inline constexpr std::string_view word<tenon::GroupInt4Of<64>> = "int4_group64";
template <>
inline constexpr std::string_view word<tenon::GroupInt4Of<128>> = "int4_group128";
template <>
inline constexpr std::string_view word<tenon::GroupInt4Act8> = "int4_act8";
template <>
inline constexpr std::string_view word<tenon::GroupInt8> = "int8_group32";
template <>
inline constexpr std::string_view word<tenon::NormalFloat4> = "nf4";

// The caches that an engine offers: an engine whose cache is not chosen at run time has pages of 16 tokens.
inline constexpr CacheWords kCaches[] = {
    {"paged", 16, tenon::CacheKind::paged16}, {"paged", 32, tenon::CacheKind::paged32},
    {"paged", 64, tenon::CacheKind::paged64}, {"contiguous", 0, tenon::CacheKind::contiguous},
    {"window", 0, tenon::CacheKind::window},  {"none", 0, tenon::CacheKind::none}};
template <class Cache>
inline constexpr std::span<const CacheWords> caches_of = {};
template <>
inline constexpr std::span<const CacheWords> caches_of<tenon::AnyKV> = kCaches;
template <>
inline constexpr std::span<const CacheWords> caches_of<tenon::AnyElementKV<tenon::PagedOf>> = std::span(kCaches, 1);
template <class Element>
inline constexpr std::span<const CacheWords> caches_of<tenon::PagedKVOf<16, Element>> = std::span(kCaches, 1);

// The elements of keys and values that an engine offers, in the order of KvType.
inline constexpr std::string_view kElements[] = {"float32", "bfloat16", "float16", "int8"};
template <class Cache>
inline constexpr std::span<const std::string_view> elements_of = kElements;
template <int Block, class E>
inline constexpr std::span<const std::string_view> elements_of<tenon::PagedKVOf<Block, E>> =
    std::span(kElements).subspan(std::is_same_v<E, float>             ? 0
                                 : std::is_same_v<E, tenon::bfloat16> ? 1
                                 : std::is_same_v<E, tenon::float16>  ? 2
                                                                      : 3,
                                 1);

// The attentions that an engine offers.
template <class AttentionP>
inline constexpr std::string_view kAttentions[] = {"flash"};
template <>
inline constexpr std::string_view kAttentions<tenon::DirectAttention>[] = {"direct"};
template <>
inline constexpr std::string_view kAttentions<tenon::FlashMma>[] = {"flash_mma"};
template <>
inline constexpr std::string_view kAttentions<tenon::AnyAttention>[] = {"flash", "direct"};

template <class WeightP, class CacheP, class AttentionP, class HeadP = WeightP, class DeviceP = tenon::Cpu>
MenuEntry menu_entry() {
  // Schedulers only decide which rows run. One type-erased scheduler serves them all and keeps the menu small.
  using Engine = tenon::Engine<tenon::AnyFamily<>, tenon::Scheduler<tenon::AnyScheduler>, tenon::Weights<WeightP>,
                               tenon::Head<HeadP>, tenon::Cache<CacheP>, tenon::Adapter<tenon::AnyLoRA>,
                               tenon::Draft<tenon::SuffixDraft>, tenon::Attention<AttentionP>, tenon::Device<DeviceP>>;
  constexpr std::string_view head = std::is_same_v<HeadP, WeightP> ? "same" : word<HeadP>;
  static_assert(!caches_of<CacheP>.empty(), "the command line has no word for this cache: add it to caches_of");
  return {{word<WeightP>, head, Engine::DeviceP::name},
          caches_of<CacheP>,
          elements_of<CacheP>,
          kAttentions<AttentionP>,
          [](const tenon::ModelFiles& files, const EngineSettings& s) -> std::unique_ptr<tenon::AnyEngine> {
            AttentionP attention;
            if constexpr (std::is_same_v<AttentionP, tenon::AnyAttention>) attention.direct = s.direct_attention;
            tenon::EngineOptions options{.token_budget = s.token_budget,
                                         .batch = s.batch,
                                         .cache_tokens = s.cache_tokens,
                                         .cache_element = s.cache_element,
                                         .cache_kind = s.cache_kind,
                                         .positions = s.positions,
                                         .threads = s.threads,
                                         .adapters = s.adapters,
                                         .merged = s.merged,
                                         .prefix_reuse = s.prefix_reuse,
                                         .on_step = s.on_step};
            if (!s.guesses) options.draft_tokens = 0;
            if (s.takes_all_guesses) options.draft_gain = 0;
            auto box = std::make_unique<tenon::EngineBox<Engine>>(files, s.scheduler, attention, options);
            box->engine().adapter_policy() = s.lora;
            if (!s.guesses_from_others) box->engine().draft_policy() = tenon::SuffixDraft(0);
            return box;
          }};
}

// An engine on the CPU, with any cache, element and attention.
template <class WeightP, class HeadP = WeightP>
MenuEntry on_cpu() {
  return menu_entry<WeightP, tenon::AnyKV, tenon::AnyAttention, HeadP>();
}

// The same with an exact head from an int8 copy.
template <class WeightP>
MenuEntry on_cpu_with_exact_head() {
  return on_cpu<WeightP, tenon::Int8ExactOf<WeightP>>();
}

}  // namespace program
