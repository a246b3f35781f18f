// The host code of core/.
#include "tenon/core/request-inl.h"
