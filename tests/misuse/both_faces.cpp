// expect: tenon: one target links tenon::tenon and tenon::compiled; link one of them
// flags: -DTENON_HEADER_ONLY -DTENON_COMPILED
#include <tenon/core/error.h>
