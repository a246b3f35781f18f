// The library in two translation units of one program. It links, so nothing is defined twice, and both units agree.
#include <iostream>

#include "shared.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const Observation first = answer_of_first(argv[1]);
  const Observation second = answer_of_second(argv[1]);
  const bool same = *first.engine == *second.engine && first.ids == second.ids && first.ids.size() == 3;
  std::cout << (same ? "both agree\n" : "the two translation units disagree\n");
  return same ? 0 : 1;
}
