// expect: tenon: -ffinite-math-only drops checks for NaN and infinity; compile without it
// flags: -ffinite-math-only
#include "tenon/core/request.h"

void check(const tenon::Options& options) { tenon::validate(options); }
