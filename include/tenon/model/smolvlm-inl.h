#pragma once
#include "tenon/core/require.h"
#include "tenon/model/configure.h"
#include "tenon/model/smolvlm.h"

namespace tenon {

TENON_INLINE ModelConfig SmolVlm::configure(const ConfigFile& file) {
  return with_model_type(model_type, configure_llama(file));
}

TENON_INLINE ModelConfig Idefics3::configure(const ConfigFile& file) {
  return with_model_type(model_type, configure_llama(file));
}

}  // namespace tenon
