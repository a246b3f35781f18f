// The host code of schedule/.
#include "tenon/schedule/cache_room-inl.h"
#include "tenon/schedule/running-inl.h"
#include "tenon/schedule/sequence-inl.h"
#include "tenon/schedule/sequence_queue-inl.h"
#include "tenon/schedule/sequence_table-inl.h"
#include "tenon/schedule/token_counters-inl.h"
