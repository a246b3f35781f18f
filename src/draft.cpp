// The host code of draft/.
#include "tenon/draft/text_memory-inl.h"
