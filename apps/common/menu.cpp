#include "menu.h"

#include <cstdint>

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
#include "tenon/weights/normal_float4.h"

namespace program {

std::vector<MenuEntry> menu() {
#if defined(TENON_MENU_DEFAULT)
  std::vector<MenuEntry> all = default_engine();
#elif defined(TENON_MENU_TWINS)
  std::vector<MenuEntry> all = twin_engines();
#else
  std::vector<MenuEntry> all;
  for (const auto& group : {float32_engines(), float16_engines(), float8_engines(), int8_engines(), int4_engines()})
    all.insert(all.end(), group.begin(), group.end());
#endif
#ifdef TENON_MENU_CUDA
  const std::vector<MenuEntry> cuda = cuda_engines();
  all.insert(all.end(), cuda.begin(), cuda.end());
#endif
  return all;
}

std::span<const WeightFormat> weight_formats() {
  using namespace tenon;
  static constexpr WeightFormat formats[] = {{"float32", Float32::bytes},
                                             {"bfloat16", BFloat16::bytes},
                                             {"bfloat16_dot", BFloat16Dot::bytes},
                                             {"bfloat16_amx", BFloat16Amx::bytes},
                                             {"bfloat16_mma", BFloat16Mma::bytes},
                                             {"float16", Float16::bytes},
                                             {"float16_mma", Float16Mma::bytes},
                                             {"float8_e4m3", Float8<E4M3>::bytes},
                                             {"float8_e5m2", Float8<E5M2>::bytes},
                                             {"int8", ZeroPointInt8::bytes},
                                             {"int8_tensor", ZeroPointInt8Of<PerTensor>::bytes},
                                             {"int8_act8", ZeroPointInt8Act8::bytes},
                                             {"int4", GroupInt4::bytes},
                                             {"int4_act8", GroupInt4Act8::bytes},
                                             {"int4_group64", GroupInt4Of<64>::bytes},
                                             {"int4_group128", GroupInt4Of<128>::bytes},
                                             {"int8_group32", GroupInt8::bytes},
                                             {"nf4", NormalFloat4::bytes}};
  return formats;
}

namespace {

template <class Element>
std::size_t tile_bytes(const tenon::KvShape& shape) {
  return shape.tile_bytes<Element>();
}

}  // namespace

std::span<const KvFormat> kv_formats() {
  static constexpr KvFormat formats[] = {{"float32", tile_bytes<float>},
                                         {"bfloat16", tile_bytes<tenon::bfloat16>},
                                         {"float16", tile_bytes<tenon::float16>},
                                         {"int8", tile_bytes<std::int8_t>}};
#ifdef TENON_MENU_DEFAULT
  return std::span(formats).first(1);
#else
  return formats;
#endif
}

}  // namespace program
