// Forward passes, for each weight format.
#define TENON_FORWARDS
#include "tenon/engine/instances.h"
