// For engine_*.cpp only: makes an entry of the menu from policy types.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>

#include "menu.h"
#include "tenon/cache/contiguous.h"
#include "tenon/cache/no_cache.h"
#include "tenon/cache/paged.h"
#include "tenon/cache/window.h"
#include "tenon/engine/engine.h"
#include "tenon/model/with_model.h"
#include "tenon/weights/bfloat16.h"
#include "tenon/weights/bfloat16_amx.h"
#include "tenon/weights/bfloat16_dot.h"
#include "tenon/weights/float16.h"
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
inline constexpr std::string_view word<float> = "float32";
template <>
inline constexpr std::string_view word<tenon::bfloat16> = "bfloat16";
template <>
inline constexpr std::string_view word<std::int8_t> = "int8";
template <>
inline constexpr std::string_view word<tenon::Float32> = "float32";
template <>
inline constexpr std::string_view word<tenon::BFloat16> = "bfloat16";
template <>
inline constexpr std::string_view word<tenon::BFloat16Dot> = "bfloat16_dot";
template <>
inline constexpr std::string_view word<tenon::BFloat16Amx> = "bfloat16_amx";
template <>
inline constexpr std::string_view word<tenon::Float16> = "float16";
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
template <>
inline constexpr std::string_view word<tenon::FlashAttention> = "flash";
template <>
inline constexpr std::string_view word<tenon::DirectAttention> = "direct";
template <class Element>
inline constexpr std::string_view word<tenon::NoCacheOf<Element>> = "none";
template <class Element>
inline constexpr std::string_view word<tenon::ContiguousKVOf<Element>> = "contiguous";
template <int Block, class Element>
inline constexpr std::string_view word<tenon::PagedKVOf<Block, Element>> = "paged";

template <int Block, class Element>
inline constexpr std::string_view word<tenon::WindowKVOf<Block, Element>> = "window";

template <class Cache>
inline constexpr int block_of = 0;
template <int Block, class Element>
inline constexpr int block_of<tenon::PagedKVOf<Block, Element>> = Block;

template <class WeightP, class CacheP, class AttentionP, class HeadP = WeightP, class DeviceP = tenon::Cpu>
MenuEntry menu_entry() {
  // Schedulers only decide which rows run. One type-erased scheduler serves them all and keeps the menu small.
  using Engine = tenon::Engine<tenon::AnyFamily<>, tenon::Scheduler<tenon::AnyScheduler>, tenon::Weights<WeightP>,
                               tenon::Head<HeadP>, tenon::Cache<CacheP>, tenon::Adapter<tenon::AnyLoRA>,
                               tenon::Attention<AttentionP>, tenon::Device<DeviceP>>;
  constexpr std::string_view head = std::is_same_v<HeadP, WeightP> ? "same" : word<HeadP>;
  return {{word<WeightP>, head, word<CacheP>, block_of<CacheP>, word<typename CacheP::View::Element>, word<AttentionP>,
           Engine::DeviceP::name},
          [](const tenon::ModelFiles& files, const EngineSettings& s) -> std::unique_ptr<tenon::AnyEngine> {
            auto box = std::make_unique<tenon::EngineBox<Engine>>(files, s.scheduler,
                                                                  tenon::EngineOptions{.token_budget = s.token_budget,
                                                                                       .batch = s.batch,
                                                                                       .cache_tokens = s.cache_tokens,
                                                                                       .positions = s.positions,
                                                                                       .threads = s.threads,
                                                                                       .adapters = s.adapters,
                                                                                       .merged = s.merged,
                                                                                       .prefix_reuse = s.prefix_reuse,
                                                                                       .on_step = s.on_step});
            box->engine().adapter_policy() = s.lora;
            return box;
          }};
}

// Adds engines with a weight format: one for each cache that keeps tokens.
template <class WeightP>
void add_weight_entries(std::vector<MenuEntry>& entries) {
  entries.push_back(menu_entry<WeightP, tenon::PagedKV, tenon::FlashAttention>());
  entries.push_back(menu_entry<WeightP, tenon::ContiguousKV, tenon::FlashAttention>());
  entries.push_back(menu_entry<WeightP, tenon::WindowKV, tenon::FlashAttention>());
}

// Adds an engine with an exact head from an int8 copy.
template <class WeightP>
void add_exact_head_entry(std::vector<MenuEntry>& entries) {
  entries.push_back(menu_entry<WeightP, tenon::PagedKV, tenon::FlashAttention, tenon::Int8ExactOf<WeightP>>());
}

}  // namespace program
