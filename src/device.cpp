// The host code of device/.
#include "tenon/device/cpu-inl.h"
#include "tenon/device/thread_pool-inl.h"
