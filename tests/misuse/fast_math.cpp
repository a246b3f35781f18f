// expect: tenon: -ffast-math reorders sums, and with it every answer; compile without it
// flags: -ffast-math
#include "tenon/core/views.h"

int main() { return static_cast<int>(sizeof(tenon::Shape)) == 0; }
