// The link-time check of the faces: symbols that units of the compiled face need and header-only units must not meet
// (core/face.h).
#include "tenon/core/require.h"

extern "C" {
extern const char tenon_compiled_face;
const char tenon_compiled_face = 0;
// The linker compares the type of this symbol. No code uses it.
extern __thread char tenon_error_header_only_and_compiled_units_are_mixed;
__thread char tenon_error_header_only_and_compiled_units_are_mixed = 0;
}
