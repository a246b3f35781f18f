// The link-time check of the faces: symbols that units of the compiled face need and header-only units must not meet
// (core/face.h).
#include "tenon/core/require.h"

extern "C" {
extern const char tenon_compiled_face;
const char tenon_compiled_face = 0;
extern thread_local char tenon_error_header_only_and_compiled_units_are_mixed;
thread_local char tenon_error_header_only_and_compiled_units_are_mixed = 0;
}
