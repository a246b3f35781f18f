#include "menu.h"

#include "tenon/weights/float32.h"

namespace program {

std::vector<MenuEntry> menu() {
  std::vector<MenuEntry> all = default_engine();
#ifndef TENON_MENU_DEFAULT
  for (const auto& group : {paged_engines(), unpaged_engines()}) all.insert(all.end(), group.begin(), group.end());
#endif
  return all;
}

std::span<const WeightFormat> weight_formats() {
  static constexpr WeightFormat formats[] = {{"float32", tenon::Float32::bytes}};
  return formats;
}

}  // namespace program
