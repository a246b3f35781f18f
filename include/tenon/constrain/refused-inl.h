#pragma once
#include "tenon/constrain/refused.h"
#include "tenon/core/require.h"

namespace tenon::constrain {

TENON_INLINE void refuse_unsupported(std::string at, std::string reason) {
  throw Refused(Error::Kind::unsupported, std::move(at), std::move(reason));
}

TENON_INLINE void refuse_invalid(std::string at, std::string reason) {
  throw Refused(Error::Kind::invalid_request, std::move(at), std::move(reason));
}

TENON_INLINE void refuse_complex(std::string what) { refuse_unsupported("#", "too complex: " + std::move(what)); }

}  // namespace tenon::constrain
