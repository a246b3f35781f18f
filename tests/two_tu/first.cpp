#include "shared.h"

Answer answer_of_first(const char* model) { return answer(model); }
