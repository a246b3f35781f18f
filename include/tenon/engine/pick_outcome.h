// The outcome of picking a token from a row.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "tenon/core/error.h"
#include "tenon/io/sha256.h"
#include "tenon/sample/sampler.h"

namespace tenon {

/// A picked token, or why there is none.
struct PickOutcome {
  std::optional<Pick> pick;
  std::uint64_t row_hash = 0;   ///< of the raw logits, if options.logits_hash
  Sha256::Digest row_digest{};  ///< likewise, if options.receipt
  std::string failure;          ///< where pick is empty
  Error::Kind kind = Error::Kind::internal;
};

}  // namespace tenon
