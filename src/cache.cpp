// The host code of cache/.
#include "tenon/cache/any_cache-inl.h"
#include "tenon/cache/prefix_index-inl.h"
#include "tenon/cache/tiles-inl.h"
