// Families other than GPT-2 on an NVIDIA GPU.
#include "engine_cuda.h"
#include "tenon/model/bloom.h"
#include "tenon/model/gpt_bigcode.h"
#include "tenon/model/llama.h"
#include "tenon/model/mistral.h"

namespace program {

namespace {

template <class Model>
MenuEntry entry() {
  return on_cuda<tenon::Float32, tenon::PagedKV, tenon::FlashAttention, Model>();
}

}  // namespace

std::vector<MenuEntry> cuda_family_engines() {
  return {entry<tenon::GptBigCode>(), entry<tenon::Llama>(), entry<tenon::Mistral>(), entry<tenon::Bloom>()};
}

}  // namespace program
