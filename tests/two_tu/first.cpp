#include "shared.h"

Observation answer_of_first(const char* model) { return answer(model); }
