#include "shared.h"

Answer answer_of_second(const char* model) { return answer(model); }
