// The host code of core/.
#include "tenon/core/classifier_head-inl.h"
#include "tenon/core/request-inl.h"
