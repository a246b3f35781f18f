#pragma once
#include "tenon/core/require.h"
#include "tenon/model/smolvlm.h"

namespace tenon {

TENON_INLINE ModelConfig SmolVlm::configure(const ConfigFile& file) {
  ModelConfig c = configure_llama(file);
  c.model_type = model_type;
  return c;
}

TENON_INLINE ModelConfig Idefics3::configure(const ConfigFile& file) {
  ModelConfig c = configure_llama(file);
  c.model_type = model_type;
  return c;
}

}  // namespace tenon
