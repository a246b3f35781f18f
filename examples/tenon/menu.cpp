#include "menu.h"

#include <cstdint>

#include "tenon/weights/float32.h"

namespace program {

std::vector<MenuEntry> menu() {
  std::vector<MenuEntry> all = default_engine();
#ifndef TENON_MENU_DEFAULT
  for (const auto& group : {paged_engines(), unpaged_engines(), kv_bfloat16_engines(), kv_int8_engines(),
                            gpt_bigcode_engines(), llama_engines(), mistral_engines(), bloom_engines()}) {
    all.insert(all.end(), group.begin(), group.end());
  }
#endif
  return all;
}

std::span<const WeightFormat> weight_formats() {
  static constexpr WeightFormat formats[] = {{"float32", tenon::Float32::bytes}};
  return formats;
}

namespace {

template <class Element>
std::size_t tile_bytes(const tenon::KvShape& shape) {
  return shape.tile_bytes<Element>();
}

}  // namespace

std::span<const KvFormat> kv_formats() {
  static constexpr KvFormat formats[] = {
      {"float32", tile_bytes<float>}, {"bfloat16", tile_bytes<tenon::bfloat16>}, {"int8", tile_bytes<std::int8_t>}};
#ifdef TENON_MENU_DEFAULT
  return std::span(formats).first(1);
#else
  return formats;
#endif
}

}  // namespace program
