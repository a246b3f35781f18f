// A program of two units for mix.sh: MAIN and the other unit. Both call a function that each face defines.
#include <tenon/core/request.h>

void part();

#ifdef MAIN
int main() {
  part();
  tenon::validate(tenon::Options{});
}
#else
void part() { tenon::validate(tenon::Options{}); }
#endif
