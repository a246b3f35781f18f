// expect: tenon: exceptions are needed; compile without -fno-exceptions
// flags: -fno-exceptions
#include "tenon/core/request.h"

bool holds(const tenon::Options& options) try {
  tenon::validate(options);
  return true;
} catch (const tenon::Error&) {
  return false;
}
