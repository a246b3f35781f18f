/// The task of an adapter, which says what its requests may ask for.
#pragma once
#include <cstdint>

#include "tenon/core/require.h"

namespace tenon {

/// The task that an adapter was trained for: task_type of PEFT.
enum class AdapterTask : std::uint8_t {
  text,      ///< CAUSAL_LM or none: whatever the model gives
  classify,  ///< SEQ_CLS: classes by a head of the adapter's own, and embeddings
  embed,     ///< FEATURE_EXTRACTION: embeddings
};

}  // namespace tenon
