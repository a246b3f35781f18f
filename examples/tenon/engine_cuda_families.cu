// The families beside GPT-2 on an NVIDIA GPU.
#include "engine_unit.h"
#include "tenon/model/bloom.h"
#include "tenon/model/gpt_bigcode.h"
#include "tenon/model/llama.h"
#include "tenon/model/mistral.h"
#include "tenon/tenon.cuh"

namespace program {

namespace {

template <class Model>
MenuEntry entry() {
  using tenon::Float32;
  return menu_entry<Model, Float32, tenon::PagedKV, tenon::FlashAttention, Float32, tenon::Cuda>();
}

}  // namespace

std::vector<MenuEntry> cuda_family_engines() {
  return {entry<tenon::GptBigCode>(), entry<tenon::Llama>(), entry<tenon::Mistral>(), entry<tenon::Bloom>()};
}

}  // namespace program
