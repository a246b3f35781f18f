// The draft policy that guesses nothing.
#pragma once
#include "tenon/core/concepts.h"

namespace tenon {

/// Every token has a step of its own.
struct NoDraft {
  void draft(const DraftState& /*state*/, DraftWriter& /*out*/) const {}
};
static_assert(DraftPolicy<NoDraft>);

}  // namespace tenon
