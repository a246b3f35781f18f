#include "shared.h"

Observation answer_of_second(const char* model) { return answer(model); }
